# NCCL::NCCL and NCCL_VERSION: NCCL 2 from a toolkit, a distribution or pip's wheels (NvWheel.cmake).
# NCCL_ROOT names a prefix.
include(${CMAKE_CURRENT_LIST_DIR}/NvWheel.cmake)
nv_find(NCCL nccl nccl.h NCCL::NCCL nccl 2)
if(NCCL_INCLUDE_DIR)
    nv_version(NCCL_VERSION "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR
    VERSION_VAR NCCL_VERSION)
