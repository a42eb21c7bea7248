# build/PRESET: cpack -G DEB makes Debian packages: the programs, and the CUDA plugins for machines
# with the CUDA libraries, which no Debian package contains.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR psgd)
set(CPACK_PACKAGE_CONTACT "psgd maintainers <maintainers@psgd.example>")
set(CPACK_PACKAGE_HOMEPAGE_URL "")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL psgd)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PSGD_PACKAGE_NAME psgd)
set(CPACK_DEBIAN_PSGD_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_COMPONENT_PSGD_DESCRIPTION "Trains neural networks through sharded parameter servers, with bounded
staleness and compressed updates, on processors and GPUs.")
set(CPACK_DEBIAN_PSGD_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PSGD_PACKAGE_RECOMMENDS "openssl, python3")
set(CPACK_DEBIAN_PSGD_PACKAGE_SUGGESTS "libucx0, python3-torch")
# Creates the user that the units run as.
set(CPACK_DEBIAN_PSGD_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/systemd/postinst)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
if(PSGD_CUDA_FOUND)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME psgd-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "The plugins by which ps-worker --gpu trains. They use the CUDA libraries
and cuDNN of NVIDIA, which have to be installed beside this.")
  # dpkg-shlibdeps finds no package of those libraries.
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "psgd (= ${PROJECT_VERSION})")
endif()
include(CPack)
