// The scripts of a bundle, with programs of the test in place of those that need a GPU.
#include <filesystem>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Bundle : public RunTest {
 protected:
  Bundle() {
    fs::create_directories(Path("bundle/bin"));
    for (const char* script : {"activate", "test-gpu.sh"}) {
      fs::copy_file(fs::path(PSGD_SOURCE_DIR "/scripts") / script, Path("bundle/") + script);
    }
  }
  // A program of the bundle that does this.
  void Program(const std::string& name, const std::string& does) const {
    const std::string path = Write("bundle/bin/" + name, "#!/bin/sh\n" + does + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  // LD_LIBRARY_PATH after `activate`, with these settings before.
  std::string LibraryPath(const std::string& settings) const {
    const Ended ended = RunProgram(
        {"/bin/bash", "-uc",
         settings + "; source " + Path("bundle/activate") + "; echo \"[${LD_LIBRARY_PATH-}]\""});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.out;
  }
};

// An empty part is the current folder: libraries of strangers.
TEST_F(Bundle, ActivateAddsNoEmptyPart) {
  fs::create_directories(Path("cuda/lib"));
  fs::create_directories(Path("cuda/lib64"));
  const std::string home = "CUDA_HOME=" + Path("cuda");
  const std::string found = Path("cuda/lib64") + ":" + Path("cuda/lib");
  for (const std::string before : {"unset LD_LIBRARY_PATH", "export LD_LIBRARY_PATH="}) {
    for (const std::string& cuda : {std::string("unset CUDA_HOME"), home}) {
      EXPECT_THAT(LibraryPath(before + "; " + cuda),
                  AllOf(Not(HasSubstr("[:")), Not(HasSubstr("::")), Not(HasSubstr(":]"))));
    }
    EXPECT_THAT(LibraryPath(before + "; " + home), HasSubstr("[" + found));
  }
  EXPECT_THAT(LibraryPath("export LD_LIBRARY_PATH=/own; " + home), HasSubstr("[/own:" + found));
}

TEST_F(Bundle, TheGpuScriptEndsWithATable) {
  Program("nvidia-smi", "echo A GPU");
  Program("ps-doctor", "exit 0");
  for (const char* test : {"engine_conformance_test", "engine_golden_test", "codec_device_test"})
    Program(test, "exit 0");
  Program("engine_zoo_conformance_test", "echo '[  SKIPPED ] no device'");
  Program("ps-bench",
          "case \"$*\" in *resnet50*fp16*|*fp16*resnet50*) exit 1;; esac\n"
          "echo 'step  0.00  0.00  0.00  yes  samples_per_second=1.25e+03  batch=64'");
  Program("ps-server", "exit 0");
  Program("ps-worker", "exit 0");
  Program("ps-run", "echo '{\"samples_per_second\": 42.0}'");
  const Ended ended = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh")});
  EXPECT_EQ(ended.code, 1);
  const size_t results = ended.out.find("== results");
  ASSERT_NE(results, std::string::npos) << ended.out << ended.err;
  const std::string table = ended.out.substr(results);
  EXPECT_THAT(table, HasSubstr("2 failed"));
  EXPECT_THAT(table, ContainsRegex("large networks against the reference +FAILED +[0-9.]+ *\n"));
  EXPECT_THAT(table, ContainsRegex("step: resnet50 224px batch 64, fp16 +FAILED"));
  EXPECT_THAT(table, ContainsRegex("step: resnet18 32px batch 128, bf16 +ok +[0-9.]+ +1250\\.0\n"));
  EXPECT_THAT(table, ContainsRegex("golden networks: losses of PyTorch +ok"));
  EXPECT_THAT(table, ContainsRegex("node.reduce host, one GPU twice +ok +[0-9.]+ +42\\.0\n"));
  EXPECT_THAT(table, HasSubstr("one GPU: node.reduce nccl was not tried"));

  Program("nvidia-smi", "echo A GPU; echo another");
  const Ended two = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh"), "nccl"});
  EXPECT_EQ(two.code, 0) << two.out;
  EXPECT_THAT(two.out,
              AllOf(ContainsRegex("node.reduce nccl, two GPUs +ok"), Not(HasSubstr("golden"))));
}

}  // namespace
}  // namespace psgd
