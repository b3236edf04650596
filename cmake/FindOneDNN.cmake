# OneDNN::OneDNN: oneDNN 2.6 or later, from the system or from a prefix in CMAKE_PREFIX_PATH (also that
# of a Python environment with onednn-devel-cpu-gomp). The library must use OpenMP.
find_path(OneDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl_version.h)
find_library(OneDNN_LIBRARY NAMES dnnl)
if(OneDNN_INCLUDE_DIR)
    file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h version_lines
        REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9]*([0-9]+);[^0-9]*([0-9]+);[^0-9]*([0-9]+).*" "\\1.\\2.\\3"
        OneDNN_VERSION "${version_lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
    VERSION_VAR OneDNN_VERSION)
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
    add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
    set_target_properties(OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
