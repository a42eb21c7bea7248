// Data files with damage found before a run or during it, with the exit codes of docs/programs.md.
#include <filesystem>

#include "tests/system/run_test.h"
#include "tests/unit/data/picture_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadData : public RunTest {
 protected:
  // Writes Path(name) and the folders above it.
  void Put(const std::string& name, const std::string& contents) const {
    WriteInFolder(Path(name), contents);
  }
  Ended Run(const std::string& model, const std::string& data) const {
    return RunProgram({"ps-run",
                       Write("bad.yaml", "model: {zoo: " + model + "}\ndata: {batch: 2, " + data +
                                             "}\ntrain: {epochs: 1}\n"),
                       "--run-dir", Path("run"), "--quiet"});
  }
  // Expects that nothing was started.
  void ExpectRefused(const std::string& model, const std::string& data,
                     const std::vector<std::string>& words) const {
    const Ended ended = Run(model, data);
    EXPECT_EQ(ended.code, 2) << words[0] << ": " << ended.err;
    for (const std::string& word : words) EXPECT_THAT(ended.err, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(Path("run")));
  }
};

TEST_F(BadData, CifarFiles) {
  const std::string record(3073, '\1'), data = "format: cifar10, path: " + Path("cifar");
  for (int file = 1; file <= 5; ++file) {
    Put("cifar/data_batch_" + std::to_string(file) + ".bin", record + record);
  }
  Put("cifar/test_batch.bin", "");
  ExpectRefused("resnet20", data, {"test_batch.bin", "is empty"});
  Put("cifar/test_batch.bin", record + "\x63" + record.substr(1));
  ExpectRefused("resnet20", data, {"test_batch.bin", "the class at byte 3073 is 99"});
  Put("cifar/test_batch.bin", record);
  Put("cifar/data_batch_3.bin", record + record.substr(0, 1000));
  ExpectRefused("resnet20", data, {"data_batch_3.bin", "truncated"});
}

TEST_F(BadData, ImageArchives) {
  const std::string image = JpegOf(Gradient(40, 40));
  const std::string pair = TarFile("0.cls", "0") + TarFile("0.jpg", image);
  const std::string data = "format: images, path: " + Path("tars") + ", images: {size: 32}";
  Put("tars/test-0.tar", pair + TarEnd());
  const std::pair<std::string, const char*> bad[] = {
      {pair.substr(0, pair.size() / 2), "train-0.tar"},
      {"x" + pair.substr(1) + TarEnd(), "wrong checksum"},
      {Gzip(pair + TarEnd()), "train-0.tar"},
      {TarFile("0.jpg", image) + TarEnd(), "no .cls member"},
      {TarFile("0.cls", "red") + TarFile("0.jpg", image) + TarEnd(),
       "is not the number of a class"},
  };
  for (const auto& [archive, problem] : bad) {
    Put("tars/train-0.tar", archive);
    ExpectRefused("resnet20", data, {"train-0.tar", problem});
  }
}

TEST_F(BadData, AGzipFileThatEndsEarly) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    lines += (i % 2 == 0 ? "+1 1:" : "-1 2:") + std::to_string(i * 7919 % 1000) + "\n";
  }
  const std::string whole = Gzip(lines);
  Put("clicks.gz", whole.substr(0, whole.size() / 2));
  ExpectRefused("logistic_regression", "format: libsvm, path: " + Path("clicks.gz"),
                {"clicks.gz", "ends early", "fetch the file again"});
}

// Masks behind the first with two classes are read during the run, so any damage makes the run
// fail.
TEST_F(BadData, MasksThatTurnOutToBeWrong) {
  const std::string image = JpegOf(Gradient(32, 32)), pixels(32 * 32, '\1');
  const std::string halves = std::string(512, '\0') + pixels.substr(512);
  const std::string data = "format: segmentation, path: " + Path("pairs") +
                           ", images: {size: 16, resize: 16, classes: 2}";
  for (const char* set : {"train", "test"}) {
    for (const char* name : {"0", "1"}) {
      Put(std::string("pairs/") + set + "/images/" + name + ".jpg", image);
      Put(std::string("pairs/") + set + "/masks/" + name + ".pgm", "P5 32 32 255\n" + halves);
    }
  }
  const std::pair<std::string, const char*> bad[] = {
      {"P5 32 32 255\n" + std::string(32 * 32, '\7'), "has a pixel of class 7"},
      {"P5 32 16 255\n" + pixels.substr(512), "is 32x16 pixels"},
      {"P6 32 32 255\n" + pixels, "does not begin with P5"},
  };
  for (const auto& [mask, problem] : bad) {
    Put("pairs/train/masks/1.pgm", mask);
    std::filesystem::remove_all(Path("run"));
    const Ended ended = Run("unet", data);
    EXPECT_EQ(ended.code, 1) << problem << ": " << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("masks/1.pgm"), HasSubstr(problem),
                                 HasSubstr("exited with code 1")));
  }
  std::filesystem::remove_all(Path("run"));
  for (const char* name : {"0", "1"}) {
    Put(std::string("pairs/train/masks/") + name + ".pgm",
        "P5 32 32 255\n" + std::string(512, '\0') + std::string(512, '\377'));
  }
  ExpectRefused("unet", data, {"pairs/train/masks: the masks have 255", "divide by 255"});
}

}  // namespace
}  // namespace psgd
