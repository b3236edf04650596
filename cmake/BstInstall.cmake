# cmake --install and cpack. The binary, presets, manual pages and completions are installed by their
# own folders.
install(FILES ${CMAKE_SOURCE_DIR}/NEWS.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME bstune)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "bstune maintainers <bstune@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "tune a neural-net training run while it runs")
set(CPACK_PACKAGE_DESCRIPTION "A terminal console and a trainer for residual nets on images.
The batch, the warm-up, the learning rate or the whole preset change while
the training goes on; each change is proposed, checked on every device,
applied between two updates, read back and journalled. The trainer is a
process of its own that outlives the console.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "dataset-fashion-mnist, ncurses-term")
include(CPack)
