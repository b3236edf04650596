# cuDNN::cuDNN and cuDNN_VERSION: cuDNN 9 from a toolkit, a distribution or pip's wheels (NvWheel.cmake).
# cuDNN_ROOT names a prefix.
include(${CMAKE_CURRENT_LIST_DIR}/NvWheel.cmake)
nv_find(cuDNN cudnn cudnn.h cuDNN::cuDNN cudnn 9)
if(cuDNN_INCLUDE_DIR AND EXISTS "${cuDNN_INCLUDE_DIR}/cudnn_version.h")
    nv_version(cuDNN_VERSION "${cuDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR
        CUDNN_PATCHLEVEL)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR
    VERSION_VAR cuDNN_VERSION)
