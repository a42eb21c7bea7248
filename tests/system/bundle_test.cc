// The scripts of a bundle, with the test's programs in place of programs that need a GPU. And a
// real bundle, unpacked elsewhere.
#include <filesystem>
#include <sstream>

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
  // Makes a program of the bundle that does `does`.
  void Program(const std::string& name, const std::string& does) const {
    const std::string path = Write("bundle/bin/" + name, "#!/bin/sh\n" + does + "\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  // LD_LIBRARY_PATH after `settings` and `activate`.
  std::string LibraryPath(const std::string& settings) const {
    const Ended ended = RunProgram(
        {"/bin/bash", "-uc",
         settings + "; source " + Path("bundle/activate") + "; echo \"[${LD_LIBRARY_PATH-}]\""});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.out;
  }
};

// An empty part means the current folder, which may have foreign libraries.
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

// A GPU on which one test is skipped, one benchmark fails and one training never ends.
TEST_F(Bundle, TheGpuScriptEndsWithATable) {
  Program("nvidia-smi", "echo A GPU");
  Program("ps-doctor", "exit 0");
  Program("psgd-gpu-tests", "case \"$*\" in *=\\*Zoo*) echo '[  SKIPPED ] no device';; esac");
  Program("ps-bench",
          "case \"$*\" in *resnet50*64*fp16*|*fp16*resnet50*64) exit 1;; esac\n"
          "echo 'step  0.00  0.00  0.00  yes  samples_per_second=1.25e+03  batch=64'");
  Program("ps-server", "exit 0");
  Program("ps-worker", "exit 0");
  Program("ps-run",
          "case \"$*\" in *onebit*) sleep 600;; esac\necho '{\"samples_per_second\": 42.0}'");
  Program("python3", "exit 1");  // as without PyTorch
  const Ended ended = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh"), "--minutes", "0.05"});
  EXPECT_EQ(ended.code, 1);
  const size_t results = ended.out.find("== results");
  ASSERT_NE(results, std::string::npos) << ended.out << ended.err;
  const std::string table = ended.out.substr(results);
  EXPECT_THAT(table, ContainsRegex("large networks against the reference +FAILED +[0-9.]+ *\n"));
  EXPECT_THAT(table, ContainsRegex("step: resnet50 224px batch 64, fp16 +FAILED"));
  EXPECT_THAT(table, ContainsRegex("step: resnet50 224px batch 256, fp16 +ok"));
  EXPECT_THAT(table, ContainsRegex("step: resnet18 32px batch 128, bf16 +ok +[0-9.]+ +1250\\.0\n"));
  EXPECT_THAT(table, ContainsRegex("golden networks: losses of PyTorch +ok"));
  EXPECT_THAT(table, ContainsRegex("networks from ONNX files: losses of PyTorch +ok"));
  EXPECT_THAT(table, ContainsRegex("training: codecs on the GPU, onebit +FAILED"));
  EXPECT_THAT(table, ContainsRegex("node.reduce host, one GPU twice +ok +[0-9.]+ +42\\.0\n"));
  EXPECT_THAT(table, ContainsRegex("training: node.reduce nccl, two GPUs +skipped"));
  EXPECT_THAT(table, ContainsRegex("against PyTorch: resnet50 +skipped"));
  EXPECT_THAT(table, ContainsRegex("== [0-9]+ passed, 3 failed, 7 skipped; .*gpu-results\n$"));
  // The files keep the table and each program's output for later.
  EXPECT_THAT(File("bundle/gpu-results/table.txt"),
              HasSubstr("large networks against the reference"));
  EXPECT_THAT(File("bundle/gpu-results/large_networks_against_the_reference.log"),
              HasSubstr("SKIPPED"));
}

TEST_F(Bundle, TheGpuScriptComparesWithPyTorchAndUsesTwoGpus) {
  Program("nvidia-smi", "echo A GPU; echo another");
  Program("ps-run", "exit 0");
  Program(
      "python3",
      "case \"$*\" in *vs_torch*resnet18) exit 1;; *vs_torch*) echo gpt 120.0 100.0 1.20;; esac");
  const Ended two = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh"), "nccl"});
  EXPECT_EQ(two.code, 0) << two.out;
  EXPECT_THAT(two.out,
              AllOf(ContainsRegex("node.reduce nccl, two GPUs +ok"), Not(HasSubstr("golden")),
                    HasSubstr("== 1 passed, 0 failed, 0 skipped")));
  const Ended torch = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh"), "against PyTorch"});
  EXPECT_EQ(torch.code, 1);
  const std::string table = torch.out.substr(torch.out.find("== results"));
  EXPECT_THAT(table, ContainsRegex("against PyTorch: resnet18 +FAILED"));
  EXPECT_THAT(table, HasSubstr("gpt 120.0 100.0 1.20\n"));
  EXPECT_THAT(table, HasSubstr("== 3 passed, 1 failed, 0 skipped"));
}

TEST_F(Bundle, TheGpuScriptNeedsAGpu) {
  Program("nvidia-smi", "echo 'no driver' >&2; exit 9");
  const Ended ended = RunProgram({"/bin/bash", Path("bundle/test-gpu.sh")});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("== 0 passed, 0 failed, 0 skipped"));
}

#ifdef PSGD_BUILD_IS_RELEASE
constexpr uintmax_t kMostBytes = 64 << 20;

// A bundle of this build, unpacked in an unrelated folder.
class MadeBundle : public RunTest {
 protected:
  static void SetUpTestSuite() {
    const std::string bundle = PSGD_BUILD_DIR "/tests/bundle";
    const Ended ended = RunProgram({"/bin/bash", PSGD_SOURCE_DIR "/scripts/bundle.sh", "--build",
                                    PSGD_BUILD_DIR, "--out", bundle},
                                   std::chrono::minutes(8));
    ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
    const Ended unpacked = RunProgram({"/bin/tar", "-C", bundle, "-xzf", bundle + "/psgd.tar.gz",
                                       "--transform", "s,^psgd/,elsewhere/,"});
    ASSERT_EQ(unpacked.code, 0) << unpacked.err;
    // The place where the bundle was made must not exist any more.
    fs::remove_all(bundle + "/psgd");
  }
  static void TearDownTestSuite() { fs::remove_all(PSGD_BUILD_DIR "/tests/bundle"); }

  static fs::path Folder() { return PSGD_BUILD_DIR "/tests/bundle/elsewhere"; }
  // Runs the command with almost no environment.
  std::vector<std::string> Command(const std::string& command) const {
    return {"/usr/bin/env",
            "-i",
            "PATH=/usr/bin:/bin",
            "HOME=" + Path("."),
            "/bin/bash",
            "-c",
            "cd " + Path(".") + " && source " + Folder().string() +
                "/activate && unset LD_LIBRARY_PATH && " + command};
  }
  Ended InBundle(const std::string& command) const { return RunProgram(Command(command)); }
  // Programs, plugins and libraries.
  static std::vector<fs::path> Binaries() {
    std::vector<fs::path> found;
    for (const char* folder : {"bin", "lib"}) {
      for (const auto& file : fs::directory_iterator(Folder() / folder)) {
        if (!file.is_symlink()) found.push_back(file.path());
      }
    }
    return found;
  }
};

TEST_F(MadeBundle, IsSmall) {
  uintmax_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(Folder())) {
    if (file.is_regular_file() && !file.is_symlink()) bytes += file.file_size();
  }
  EXPECT_LE(bytes, kMostBytes);
  EXPECT_GT(bytes, kMostBytes / 8);
}

TEST_F(MadeBundle, BringsAllButGlibcAndCuda) {
  ASSERT_GT(Binaries().size(), 10u);
  for (const fs::path& binary : Binaries()) {
    std::istringstream lines(InBundle("ldd " + binary.string()).out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("=>") == std::string::npos || line.find(Folder()) != std::string::npos)
        continue;
      EXPECT_THAT(line,
                  ContainsRegex("^\\s*(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^ ]*|"
                                "libcuda|libcublas[^ ]*|libcudnn[^ ]*)\\.so"))
          << binary;
    }
  }
}

TEST_F(MadeBundle, AsksForNoNewerGlibcThanDebian12) {
  int asking = 0;
  for (const fs::path& binary : Binaries()) {
    const Ended ended = InBundle("readelf --version-info --wide " + binary.string() +
                                 " | grep -oE 'GLIBC_2\\.[0-9]+' | sort -uV | tail -1");
    if (ended.out.empty()) continue;  // it needs no glibc version
    ++asking;
    ASSERT_EQ(ended.out.rfind("GLIBC_2.", 0), 0u) << binary << ended.err;
    EXPECT_LE(std::stoi(ended.out.substr(8)), 36) << binary;
  }
  EXPECT_GT(asking, 10);
}

TEST_F(MadeBundle, TrainsElsewhere) {
  Process server(Command("exec ps-server --config " + Folder().string() +
                         "/configs/mlp_synthetic.yaml --set train.epochs=1 --workers 1 --port 0 "
                         "--run-dir run"));
  const std::string address = ServerOf(server);
  const Ended worker = InBundle("ps-worker --cpu --engine reference --server " + address);
  EXPECT_EQ(worker.code, 0) << worker.err;
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
  EXPECT_EQ(Summary("run")["status"], "finished");
  const Ended golden =
      InBundle("cd " + Folder().string() + " && psgd-gpu-tests --gtest_filter='*lenet5_reference'");
  EXPECT_EQ(golden.code, 0) << golden.out << golden.err;
  EXPECT_THAT(golden.out, HasSubstr("[  PASSED  ] 2 tests."));
}

// The bundle has no room for oneDNN. A user who asks for it is told what to do.
TEST_F(MadeBundle, SaysWhatItLacks) {
  const Ended ended = InBundle("ps-bench step --engine onednn --model lenet5 --batch 2");
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("scripts/bundle.sh --with-onednn"));
}
#endif

}  // namespace
}  // namespace psgd
