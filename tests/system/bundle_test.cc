// The scripts of a bundle, with the test's programs in place of programs that need a GPU. And a
// real bundle, unpacked elsewhere.
#include <signal.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/folders.h"
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
      fs::copy_file(SourceDir() + "/scripts/" + script, Path("bundle/") + script);
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

// A machine with one GPU and no PyTorch.
class GpuScript : public Bundle {
 protected:
  // What a program of tests prints for a skipped test.
  static std::string Skipped(const std::string& why) {
    return "printf 'twins_test.cc:7: Skipped\\n" + why + "\\n\\n'";
  }

  // A program that leaves a run with that accuracy and those weights.
  static std::string Runs(const std::string& accuracy, const std::string& weights) {
    return "for a; do [ \"$last\" = --run-dir ] && folder=$a; last=$a; done\nmkdir -p $folder\n"
           "echo " +
           weights +
           " > $folder/weights.safetensors\n"
           "echo '  \"test_accuracy\": " +
           accuracy + ",' > $folder/summary.json";
  }

  GpuScript() {
    Program("nvidia-smi", "echo A GPU");
    Program("ps-doctor", "exit 0");
    Program("psgd-gpu-tests", kPasses);
    Program("ps-bench",
            "echo 'step  0.00  0.00  0.00  yes  samples_per_second=1.25e+03  batch=64'");
    Program("ps-server", Runs("0.98", "weights"));
    Program("ps-worker", "exit 0");
    Program("ps-run", Runs("0.98", "weights") + "\necho '{\"samples_per_second\": 42.0}'");
    Program("compute-sanitizer", "while [ $1 != psgd-gpu-tests ]; do shift; done; exec \"$@\"");
    Program("python3", "exit 1");
  }

  Ended Run(const std::vector<std::string>& arguments) const {
    return RunProgram(std::vector<std::string>{"/bin/bash", Path("bundle/test-gpu.sh")} +
                      arguments);
  }
  static std::string TableOf(const Ended& ended) {
    const size_t results = ended.out.find("== results");
    return results == std::string::npos ? ended.out + ended.err : ended.out.substr(results);
  }
  std::string KeptTable() const { return File("bundle/gpu-results/table.txt"); }

  static constexpr char kPasses[] = "echo '[  PASSED  ] 3 tests.'";
};

// One test finds no device, one benchmark fails and one training never ends.
TEST_F(GpuScript, EndsWithATable) {
  Program("psgd-gpu-tests",
          "case \"$*\" in *=\\*Zoo*) " + Skipped("no device") + ";; esac\n" + kPasses);
  Program("ps-bench",
          "case \"$*\" in *resnet50*64*fp16*|*fp16*resnet50*64) exit 1;; esac\n"
          "echo 'step  0.00  0.00  0.00  yes  samples_per_second=1.25e+03  batch=64'");
  Program("ps-run",
          "case \"$*\" in *onebit*) sleep 600;; esac\n"
          "echo '{\"samples_per_second\": 42.0}'");
  const Ended ended = Run({"--minutes", "0.03", "steps", "golden", "train", "torch"});
  EXPECT_EQ(ended.code, 1);
  const std::string table = TableOf(ended);
  EXPECT_THAT(table, ContainsRegex("large networks against the reference +FAILED +[0-9.]+ *\n"));
  EXPECT_THAT(table, ContainsRegex("step: resnet50 224px batch 64, fp16 +FAILED"));
  EXPECT_THAT(table, ContainsRegex("step: resnet50 224px batch 64, fp32 +ok"));
  EXPECT_THAT(table, ContainsRegex("step: resnet18 32px batch 128, bf16 +ok +[0-9.]+ +1250\\.0\n"));
  EXPECT_THAT(table, ContainsRegex("golden networks: losses of PyTorch +ok"));
  EXPECT_THAT(table, ContainsRegex("networks from ONNX files: losses of PyTorch +ok"));
  EXPECT_THAT(table, ContainsRegex("training: codecs on the GPU, onebit +FAILED"));
  EXPECT_THAT(table, ContainsRegex("node.reduce host, one GPU twice +ok +[0-9.]+ +42\\.0\n"));
  EXPECT_THAT(table, ContainsRegex("training: node.reduce nccl, two GPUs +skipped"));
  EXPECT_THAT(table, ContainsRegex("against PyTorch: resnet50, bf16 +skipped"));
  EXPECT_THAT(table, ContainsRegex("== [0-9]+ passed, 3 failed, 6 skipped; .*gpu-results\n$"));
  // The files keep the table and each program's output for later.
  EXPECT_THAT(KeptTable(), HasSubstr("large networks against the reference"));
  EXPECT_THAT(File("bundle/gpu-results/large_networks_against_the_reference.log"),
              HasSubstr("tests that were skipped, although there is a GPU, and why:"));
}

TEST_F(GpuScript, ListsItsPiecesAlsoWithoutAGpu) {
  Program("nvidia-smi", "exit 9");
  const Ended all = Run({"--list"});
  EXPECT_EQ(all.code, 0) << all.err;
  size_t before = 0;
  for (const char* piece : {"capture", "ops", "twins", "golden", "repeat", "bench", "torch",
                            "roofline", "sanitize", "train", "steps", "torch_tf32"}) {
    const std::string line = absl::StrCat("\n", piece, " ");
    const size_t at = ("\n" + all.out).find(line);
    ASSERT_NE(at, std::string::npos) << piece << all.out;
    EXPECT_GE(at, before) << piece << " comes too early";
    before = at;
    // The estimate of the piece: enough to fit into one loan of a machine.
    const std::string rest = all.out.substr(at + std::string(piece).size());
    const int seconds = std::stoi(rest);
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, 480) << piece;
  }
  const Ended some = Run({"--list", "twins", "nccl"});
  EXPECT_THAT(some.out, AllOf(HasSubstr("codecs against the host"), Not(HasSubstr("golden"))));
  EXPECT_FALSE(std::filesystem::exists(Path("bundle/gpu-results")));
}

TEST_F(GpuScript, RunsThePiecesThatItIsTold) {
  Program("ps-run", "exit 3");
  const Ended ended = Run({"capture", "ops", "twins", "golden", "bench", "sanitize"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(TableOf(ended), AllOf(HasSubstr("== 15 passed, 0 failed, 0 skipped"),
                                    Not(HasSubstr("training")), Not(HasSubstr("bit for bit"))));
  const Ended unknown = Run({"gloden"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("has gloden; --list shows them all"));
  EXPECT_EQ(Run({"--fast"}).code, 2);
  EXPECT_EQ(Run({"--budget", "soon"}).code, 2);
}

// A codec that no other codec can go on from has nothing to test there. Every other skip is a
// failure, and so is a name without tests.
TEST_F(GpuScript, AllowsSkipsOfCasesWithNothingToTest) {
  Program("psgd-gpu-tests",
          Skipped("no other codec goes on from it: compression.push: auto refuses it") + "\n" +
              kPasses);
  const Ended allowed = Run({"twins"});
  EXPECT_EQ(allowed.code, 0) << allowed.out;
  EXPECT_THAT(TableOf(allowed), ContainsRegex("codecs against the host, byte by byte +ok"));
  Program("psgd-gpu-tests", Skipped("UNAVAILABLE: no CUDA device") + "\n" + kPasses);
  const Ended absent = Run({"twins"});
  EXPECT_EQ(absent.code, 1);
  EXPECT_THAT(absent.out, ContainsRegex("although there is a GPU, and why:\n +[0-9]+ UNAVAILABLE"));
  Program("psgd-gpu-tests", "echo '[  PASSED  ] 0 tests.'");
  EXPECT_THAT(Run({"twins"}).out, HasSubstr("no test passed; the names were: *DeviceTwins*cudnn*"));
  Program("psgd-gpu-tests", std::string(kPasses) + "; exit 1");
  EXPECT_THAT(TableOf(Run({"twins"})), HasSubstr("== 0 passed, 1 failed, 0 skipped"));
}

TEST_F(GpuScript, FindsARunThatDoesNotRepeat) {
  EXPECT_EQ(Run({"repeat"}).code, 0);
  Program("ps-run", Runs("0.98", "$folder"));
  const Ended ended = Run({"bit for bit"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr("gpu-run-1/weights.safetensors gpu-run-2/weights.safetensors "
                                   "differ"));
  EXPECT_THAT(TableOf(ended), HasSubstr("== 0 passed, 2 failed, 0 skipped"));
  Program("ps-run", Runs("0.9", "weights"));
  EXPECT_THAT(Run({"four shards"}).out, HasSubstr("0.9 on the GPU, 0.98 on the host"));
}

TEST_F(GpuScript, StartsNoCheckThatDoesNotFitTheBudget) {
  const Ended ended = Run({"--budget", "125", "capture", "ops", "twins"});
  EXPECT_EQ(ended.code, 0) << ended.out;
  const std::string table = TableOf(ended);
  EXPECT_THAT(table, ContainsRegex("ops and networks against the reference +skipped"));
  EXPECT_THAT(table, HasSubstr("== 3 passed, 0 failed, 1 skipped"));
  EXPECT_THAT(ended.out, ContainsRegex("it takes about 150 seconds, and 12[0-9] of 125 are left"));
}

// The table has every row until then, whole, and says what was under way.
TEST_F(GpuScript, KeepsAWholeTableWhenItIsCut) {
  const std::string begun = Path("begun");
  Program("ps-bench", "case \"$*\" in *vgg16*) touch '" + begun + "'; sleep 600;; esac");
  const std::string kept = Path("kept here");
  Process script({"/bin/bash", Path("bundle/test-gpu.sh"), "--results", kept, "bench"});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(begun); })) << script.Err();
  EXPECT_THAT(File("kept here/table.txt"),
              ContainsRegex("gpt 6 layers of 512, 1024 tokens, bf16 +ok +[0-9.]+ *\n$"));
  script.Signal(SIGTERM);
  const Ended ended = script.Wait();
  EXPECT_EQ(ended.code, 130);
  EXPECT_THAT(ended.out, HasSubstr("== 3 passed, 0 failed, 0 skipped, 1 cut"));
  EXPECT_THAT(File("kept here/table.txt"),
              AllOf(ContainsRegex("resnet50 224px batch 256, bf16 +ok"),
                    ContainsRegex("vgg16 224px batch 64, bf16 +cut *\n$")));
}

TEST_F(GpuScript, ComparesWithPyTorchAndUsesTwoGpus) {
  Program("nvidia-smi", "echo A GPU; echo another");
  Program("ps-run", "exit 0");
  Program(
      "python3",
      "case \"$*\" in *vs_torch*vgg16*tf32) exit 1;; *vs_torch*) echo gpt 120.0 100.0 1.20;; esac");
  const Ended two = Run({"nccl"});
  EXPECT_EQ(two.code, 0) << two.out;
  EXPECT_THAT(two.out,
              AllOf(ContainsRegex("node.reduce nccl, two GPUs +ok"), Not(HasSubstr("golden")),
                    HasSubstr("== 1 passed, 0 failed, 0 skipped")));
  const Ended torch = Run({"against PyTorch"});
  EXPECT_EQ(torch.code, 1);
  const std::string table = TableOf(torch);
  EXPECT_THAT(table, ContainsRegex("against PyTorch: vgg16, tf32 +FAILED"));
  EXPECT_THAT(table, HasSubstr("gpt 120.0 100.0 1.20\n"));
  EXPECT_THAT(table, HasSubstr("== 5 passed, 1 failed, 0 skipped"));
}

TEST_F(GpuScript, SaysThatItNeedsAGpu) {
  Program("nvidia-smi", "echo 'no driver' >&2; exit 9");
  const Ended ended = Run({});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("no GPU can be used here: nvidia-smi says: no driver"),
                               HasSubstr("--list shows what it would run"),
                               HasSubstr("== 0 passed, 0 failed, 0 skipped")));
}

#ifdef PSGD_BUILD_IS_RELEASE
constexpr uintmax_t kMostBytes = 64 << 20;

// A bundle of this build, unpacked in an unrelated folder.
class MadeBundle : public RunTest {
 protected:
  static void SetUpTestSuite() {
    const std::string bundle = BuildDir() + "/tests/bundle";
    const Ended ended = RunProgram(
        {"/bin/bash", SourceDir() + "/scripts/bundle.sh", "--build", BuildDir(), "--out", bundle},
        std::chrono::minutes(8));
    ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
    const Ended unpacked = RunProgram({"/bin/tar", "-C", bundle, "-xzf", bundle + "/psgd.tar.gz",
                                       "--transform", "s,^psgd/,elsewhere/,"});
    ASSERT_EQ(unpacked.code, 0) << unpacked.err;
    // The place where the bundle was made must not exist any more.
    fs::remove_all(bundle + "/psgd");
  }
  static void TearDownTestSuite() { fs::remove_all(BuildDir() + "/tests/bundle"); }

  static fs::path Folder() { return BuildDir() + "/tests/bundle/elsewhere"; }
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
    // Those of lib/ find each other only from a program, and are in its list.
    if (binary.parent_path().filename() == "lib") continue;
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
