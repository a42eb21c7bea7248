#include "engine/runtime/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/folders.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(PluginTest, RefusesAProgramOfAnotherBuild) {
  const std::string path = PluginDir() + "/libpsgd_onednn.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) GTEST_SKIP() << dlerror();
  const auto make = reinterpret_cast<MakeBackendFunction>(dlsym(library, "psgd_make_backend"));
  ASSERT_NE(make, nullptr);
  absl::StatusOr<std::unique_ptr<Backend>> made = absl::UnknownError("untouched");
  EXPECT_FALSE(make(12345, {}, &made));
  EXPECT_EQ(made.status().message(), "untouched");
}

TEST(PluginTest, SaysWhyALibraryDoesNotLoad) {
  const fs::path folder = fs::path(::testing::TempDir()) / "psgd_plugin_test";
  fs::create_directories(folder);
  std::ofstream(folder / "libpsgd_onednn.so") << "not a library";
  const absl::Status status = LoadBackend("onednn", folder.string(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("libpsgd_onednn.so"));
  EXPECT_THAT(status.ToString(), HasSubstr("reference backend"));
  fs::remove_all(folder);
}

// Programs of a bundle find CUDA's libraries after `activate` is sourced.
TEST(PluginTest, SaysHowCudasLibrariesAreFound) {
  const fs::path folder = fs::path(::testing::TempDir()) / "psgd_plugin_test_cuda";
  fs::create_directories(folder);
  std::ofstream(folder / "libpsgd_cudnn.so") << "not a library";
  const absl::Status status = LoadBackend("cudnn", folder.string(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("`source activate` of the bundle"));
  EXPECT_THAT(status.ToString(), HasSubstr("CUDA_HOME"));
  fs::remove_all(folder);
}

TEST(PluginTest, SaysHowToGetWhatIsMissing) {
  const absl::Status status = LoadBackend("onednn", "/nowhere", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr("scripts/bundle.sh --with-onednn"));
}

// Other tests skip a backend that does not load. This test checks that every built backend loads.
TEST(PluginTest, WhatWasBuiltLoads) {
  for (const char* built : {PSGD_TEST_PLUGINS}) {
    const std::string file = PluginDir() + "/lib" + built + ".so";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    EXPECT_NE(library, nullptr) << dlerror();
  }
}

TEST(PluginTest, CudnnSaysThatThereIsNoDevice) {
  const auto backend = LoadBackend("cudnn", PluginDir(), {});
  if (backend.ok()) GTEST_SKIP() << "there is one";
  const std::vector<std::string> built = {PSGD_TEST_PLUGINS};
  if (std::find(built.begin(), built.end(), "psgd_cudnn") == built.end()) {
    GTEST_SKIP() << "built without CUDA";
  }
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable) << backend.status();
  EXPECT_THAT(backend.status().ToString(), HasSubstr("no CUDA device can be used on this host"));
}

}  // namespace
}  // namespace psgd
