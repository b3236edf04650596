# BSTUNE_CUDA: whether the CUDA backend is built. AUTO: where nvcc, the runtime, cuBLASLt, cuDNN 9 and NCCL
# are all found; ON: it is an error when one is not. Sets BSTUNE_HAVE_CUDA, and BSTUNE_CUDA_MISSING to what
# was not found. bstune itself never links these libraries: what does is a module that it loads.
set(BSTUNE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO | ON | OFF")
set_property(CACHE BSTUNE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(BSTUNE_HAVE_CUDA FALSE)
set(BSTUNE_CUDA_MISSING "")
if(NOT BSTUNE_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "BSTUNE_CUDA is ${BSTUNE_CUDA}; it is AUTO, ON or OFF")
endif()

# A macro, since the language has to be enabled in the folder above all that use it.
macro(bst_find_cuda)
    # A100, H100, B200 as machine code, and PTX of the last for what comes after.
    if(NOT CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
    endif()
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        find_program(BSTUNE_NVCC nvcc HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda
            PATH_SUFFIXES bin)
        mark_as_advanced(BSTUNE_NVCC)
        if(BSTUNE_NVCC) # as a proposal: one that does not work is then no error under AUTO
            set(ENV{CUDACXX} ${BSTUNE_NVCC})
        endif()
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        find_package(CUDAToolkit 12 QUIET)
    else()
        list(APPEND BSTUNE_CUDA_MISSING "nvcc")
    endif()
    find_package(cuDNN 9.8 QUIET) # device properties as JSON came with 9.8
    find_package(NCCL 2.18 QUIET)
    foreach(target CUDA::cudart CUDA::cublasLt cuDNN::cuDNN NCCL::NCCL)
        if(NOT TARGET ${target})
            string(REGEX REPLACE ".*::" "" name ${target})
            list(APPEND BSTUNE_CUDA_MISSING ${name})
        endif()
    endforeach()
endmacro()

# Where the module's libraries lie. In pip's wheels NVRTC is found, but not its builtins, unless the path is
# of the kind that libraries of libraries are looked up in too; in the other layouts the usual kind,
# which LD_LIBRARY_PATH comes before.
macro(bst_cuda_rpath)
    set(BSTUNE_CUDA_RPATH "")
    set(BSTUNE_CUDA_LINK_OPTIONS "")
    get_filename_component(cudnn_dir "${cuDNN_LIBRARY}" DIRECTORY)
    get_filename_component(nccl_dir "${NCCL_LIBRARY}" DIRECTORY) # opened by the module, not linked
    foreach(dir "${CUDAToolkit_LIBRARY_DIR}" "${cudnn_dir}" "${nccl_dir}")
        if(NOT dir MATCHES "^/(usr/)?lib(64)?(/|$)")
            list(APPEND BSTUNE_CUDA_RPATH "${dir}")
        endif()
        if(dir MATCHES "/nvidia/[^/]+/lib$")
            set(BSTUNE_CUDA_LINK_OPTIONS -Wl,--disable-new-dtags)
        endif()
    endforeach()
    list(REMOVE_DUPLICATES BSTUNE_CUDA_RPATH)
endmacro()

if(NOT BSTUNE_CUDA STREQUAL "OFF")
    bst_find_cuda()
    list(JOIN BSTUNE_CUDA_MISSING ", " BSTUNE_CUDA_MISSING)
    if(NOT BSTUNE_CUDA_MISSING)
        set(BSTUNE_HAVE_CUDA TRUE)
        bst_cuda_rpath()
        message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION} (${CUDAToolkit_LIBRARY_DIR}), cuDNN "
            "${cuDNN_VERSION} (${cuDNN_LIBRARY}), NCCL ${NCCL_VERSION} (${NCCL_LIBRARY})")
    elseif(BSTUNE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "BSTUNE_CUDA is ON, but not found: ${BSTUNE_CUDA_MISSING}")
    else()
        message(STATUS "CUDA backend: not built, since not found: ${BSTUNE_CUDA_MISSING}")
    endif()
endif()
