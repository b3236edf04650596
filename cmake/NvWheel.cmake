# Where NVIDIA's libraries can lie: a toolkit, a distribution's packages, or pip's wheels:
#   nvidia/<folder>/{include,lib}   a library's own folder (all of CUDA 12; cuDNN and NCCL of CUDA 13)
#   nvidia/cu13/{include,lib}       the rest of CUDA 13
# Wheels have only libX.so.N, without the development link, so that name is spelled out.
include_guard()

# nv_roots(OUT FOLDER PKG): prefixes to look in, best first. What was asked for by name comes before the
# toolkit in use, that before an activated Python environment, and the system last.
function(nv_roots out folder pkg)
    set(near ${${pkg}_ROOT} $ENV{${pkg}_ROOT} ${NV_WHEEL_ROOT} ${CMAKE_PREFIX_PATH} ${CUDAToolkit_ROOT}
        ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT} $ENV{CUDNN_PATH} $ENV{NCCL_HOME} $ENV{CUDA_HOME}
        $ENV{CUDA_PATH} $ENV{VIRTUAL_ENV} $ENV{CONDA_PREFIX} /usr/local/cuda ${CMAKE_SYSTEM_PREFIX_PATH})
    set(roots "")
    foreach(prefix IN LISTS near)
        file(GLOB python LIST_DIRECTORIES true "${prefix}/lib/python3*/site-packages/nvidia")
        list(APPEND roots "${prefix}")
        foreach(top "${prefix}" "${prefix}/nvidia" ${python})
            list(APPEND roots "${top}/${folder}" "${top}/cu13")
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES roots)
    set(${out} "${roots}" PARENT_SCOPE)
endfunction()

# nv_find(PKG FOLDER HEADER TARGET NAME MAJOR...): sets PKG_INCLUDE_DIR, PKG_LIBRARY and the imported
# TARGET. Header and library are taken from the first prefix that has both: a search for each on its own
# pairs the headers of one version with the library of another where two are installed.
function(nv_find pkg folder header target name)
    set(names ${name})
    foreach(major IN LISTS ARGN)
        list(APPEND names lib${name}.so.${major})
    endforeach()
    nv_roots(roots ${folder} ${pkg})
    set(multiarch ${CMAKE_LIBRARY_ARCHITECTURE})
    foreach(root IN LISTS roots)
        if(${pkg}_INCLUDE_DIR AND ${pkg}_LIBRARY)
            break()
        endif()
        if(NOT EXISTS "${root}/include" AND NOT ${pkg}_INCLUDE_DIR)
            continue()
        endif()
        unset(nv_header CACHE)
        unset(nv_library CACHE)
        find_path(nv_header ${header} PATHS "${root}/include" "${root}/include/${multiarch}"
            NO_DEFAULT_PATH)
        find_library(nv_library NAMES ${names} NAMES_PER_DIR PATHS "${root}/lib64" "${root}/lib"
            "${root}/lib/${multiarch}" NO_DEFAULT_PATH)
        if(nv_header AND nv_library)
            set(${pkg}_INCLUDE_DIR "${nv_header}" CACHE PATH "Folder of ${header}")
            set(${pkg}_LIBRARY "${nv_library}" CACHE FILEPATH "lib${name}")
        endif()
    endforeach()
    unset(nv_header CACHE)
    unset(nv_library CACHE)
    mark_as_advanced(${pkg}_INCLUDE_DIR ${pkg}_LIBRARY)
    if(${pkg}_INCLUDE_DIR AND ${pkg}_LIBRARY AND NOT TARGET ${target})
        add_library(${target} UNKNOWN IMPORTED)
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${pkg}_LIBRARY}"
            INTERFACE_INCLUDE_DIRECTORIES "${${pkg}_INCLUDE_DIR}")
    endif()
endfunction()

# nv_version(OUT FILE MACRO...): "a.b.c" from the #defines of a header.
function(nv_version out file)
    set(parts "")
    foreach(macro IN LISTS ARGN)
        file(STRINGS "${file}" line REGEX "^#define +${macro} +[0-9]+" LIMIT_COUNT 1)
        string(REGEX REPLACE ".*${macro} +([0-9]+).*" "\\1" part "${line}")
        list(APPEND parts "${part}")
    endforeach()
    list(JOIN parts "." version)
    set(${out} "${version}" PARENT_SCOPE)
endfunction()
