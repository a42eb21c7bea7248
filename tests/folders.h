// Where tests find the sources and what is built.
#pragma once

#include <string>

namespace psgd {

std::string SourceDir();
std::string BuildDir();
// A file of tests/golden: in the sources, or beside the bin/ of a bundle.
std::string GoldenFile(const std::string& name);
// The folder in PSGD_TEST_EMULATED, which has replacements (tests/fakes/emulated_cuda), or the
// build's. Empty without a build: then plugins are found as programs find them.
std::string PluginDir();
// The folder of the plugin that tests/fakes/`name` makes.
std::string FakeDir(const std::string& name);

}  // namespace psgd
