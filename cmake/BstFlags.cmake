# Flags shared by every target, as one INTERFACE library.
add_library(bst_flags INTERFACE)
target_compile_definitions(bst_flags INTERFACE _GNU_SOURCE BST_VERSION="${PROJECT_VERSION}")
set(BST_C_FLAGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wwrite-strings -Wundef -fno-common -fvisibility=hidden -ffp-contract=off)
target_compile_options(bst_flags INTERFACE "$<$<COMPILE_LANGUAGE:C>:${BST_C_FLAGS}>")
target_include_directories(bst_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(BSTUNE_SANITIZE)
    # Debug alone is -O0, and the nets' tests take three times as long.
    set(BST_SAN_FLAGS -fsanitize=${BSTUNE_SANITIZE} -fno-omit-frame-pointer
        -fno-optimize-sibling-calls $<$<CONFIG:Debug>:-O1>)
    target_compile_options(bst_flags INTERFACE "$<$<COMPILE_LANGUAGE:C>:${BST_SAN_FLAGS}>")
    target_link_options(bst_flags INTERFACE -fsanitize=${BSTUNE_SANITIZE})
    if(BSTUNE_SANITIZE MATCHES "undefined")
        target_compile_options(bst_flags INTERFACE
            "$<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>")
    endif()
endif()

# bst_layer(NAME FILES... LINKS LIB...): the static library of one layer.
function(bst_layer name)
    cmake_parse_arguments(PARSE_ARGV 1 L "" "" "LINKS;PRIVATE_LINKS")
    add_library(${name} STATIC ${L_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PUBLIC bst_flags ${L_LINKS} PRIVATE ${L_PRIVATE_LINKS})
endfunction()
