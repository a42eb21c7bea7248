// Format images with a table of labels, and with PNG files.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "data/open_data.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"
#include "tests/unit/data/row_samples.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class LabelledImagesTest : public testing::Test {
 protected:
  LabelledImagesTest() {
    for (int i = 0; i < 4; ++i) {
      WriteInFolder(folder_.File("a/" + std::to_string(i) + ".png"),
                    PngOf(Gradient(20, 20, 50 * i)));
    }
    WriteInFolder(folder_.File("b.jpg"), JpegOf(Gradient(20, 20)));
  }
  absl::StatusOr<DataSets> Open(const std::string& labels, const std::string& more) {
    WriteFile(folder_.File("labels.csv"), labels);
    DataConfig config;
    const std::string text = "format: IMAGES path: \"" + folder_.path() +
                             "\" batch: 1 mean: [0, 0, 0] stddev: [1, 1, 1] images { size: 8 "
                             "labels: \"labels.csv\" skip_damaged: " +
                             (skip_damaged_ ? "true } " : "false } ") + more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
    return OpenData(config, 1);
  }
  std::string Error(const std::string& labels, const std::string& more = "target: \"kind\"") {
    const auto sets = Open(labels, more);
    return sets.ok() ? "no error" : std::string(sets.status().message());
  }

  ScratchFolder folder_;
  bool skip_damaged_ = false;
};

constexpr char kClasses[] =
    "kind,file,note\nbee,a/0.png,x\nant,a/1.png,\nbee,b.jpg,z\nant,a/2.png,\nbee,a/3.png,\n";

int32_t LabelAt(const SampleSource& source, size_t index, std::vector<float>* targets) {
  std::vector<float> pixels(source.shape().elements());
  targets->resize(static_cast<size_t>(source.shape().targets));
  int32_t label = -7;
  const absl::Status read =
      source.Read({0, index}, {.values = pixels, .labels = {&label, 1}, .targets = *targets});
  EXPECT_TRUE(read.ok()) << read;
  return label;
}

TEST_F(LabelledImagesTest, AColumnOfClasses) {
  const auto sets = Open(kClasses, "target: \"kind\" table { test_fraction: 0.4 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.classes, 2);
  EXPECT_EQ(sets->shape.targets, 0);
  EXPECT_EQ(sets->train->size(), 3u);
  EXPECT_EQ(sets->test->size(), 2u);
  std::vector<float> none;
  EXPECT_EQ(LabelAt(*sets->train, 0, &none), 1);  // ant, bee
  EXPECT_EQ(LabelAt(*sets->train, 1, &none), 0);
  EXPECT_EQ(LabelAt(*sets->test, 1, &none), 1);
}

TEST_F(LabelledImagesTest, SortedClassesAreNoted) {
  std::string table = "file,kind\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "s/" + std::to_string(i) + ".png";
    WriteInFolder(folder_.File(name), "not read");
    table += name + (i < 20 ? ",ant\n" : ",bee\n");
  }
  const auto sets = Open(table, "target: \"kind\" table { test_fraction: 0.25 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(sets->note, HasSubstr("labels.csv: all 10 test rows, the last of the file, have the "
                                    "class bee;"));
}

TEST_F(LabelledImagesTest, LabelsAndNumbers) {
  const std::string table = "file\tred\tround\na/0.png\t1\t0\na/1.png\t0\t1\nb.jpg\t1\t1\n";
  const auto sets = Open(table, "target: [\"red\", \"round\"] target_kind: LABELS");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.classes, 2);
  EXPECT_EQ(sets->shape.targets, 2);
  EXPECT_THAT(sets->targets.names, ElementsAre("red", "round"));
  std::vector<float> targets;
  EXPECT_EQ(LabelAt(*sets->train, 1, &targets), 0);
  EXPECT_THAT(targets, ElementsAre(0, 1));
  const auto numbers =
      Open("file,age\na/0.png,10\na/1.png,30\nb.jpg,20\n", "target: \"age\" target_kind: NUMBER");
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  LabelAt(*numbers->test, 0, &targets);
  EXPECT_THAT(targets, ElementsAre(0));  // the mean of the training rows is 20
  EXPECT_EQ(numbers->targets.scales[0].mean, 20);
}

TEST_F(LabelledImagesTest, TheTestMayHaveItsOwnTable) {
  WriteFile(folder_.File("test.csv"), "file,kind\na/3.png,ant\n");
  const auto sets = Open(kClasses, "target: \"kind\" table { test: \"test.csv\" }");
  EXPECT_THAT(std::string(sets.status().message()), HasSubstr("comes twice"));
  const auto own = Open("file,kind\na/0.png,ant\na/1.png,bee\n",
                        "target: \"kind\" table { test: \"test.csv\" }");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->train->size(), 2u);
  EXPECT_EQ(own->test->size(), 1u);
}

TEST_F(LabelledImagesTest, WrongTablesNameTheLine) {
  EXPECT_THAT(Error("file,kind\na/0.png,x\na/9.png,y\nb.jpg,x\n"),
              AllOf(HasSubstr("labels.csv:3: there is no file "), HasSubstr("a/9.png")));
  EXPECT_THAT(Error("file,kind\na/0.png,x\na/1.png,y\n./a//0.png,y\n"),
              AllOf(HasSubstr("labels.csv:4: the file ./a//0.png comes twice, first in "),
                    HasSubstr("labels.csv:2")));
  EXPECT_THAT(Error("name,kind\na/0.png,x\n"),
              AllOf(HasSubstr("labels.csv:1: no column is named \"file\", as data.images.labels"),
                    HasSubstr("name, kind")));
  EXPECT_THAT(Error("file,kinds\na/0.png,x\n"),
              AllOf(HasSubstr("no column is named \"kind\""), HasSubstr("did you mean \"kinds\"")));
  EXPECT_THAT(Error("file,kind\na/0.png,x,y\n"), HasSubstr("labels.csv:2: 3 fields"));
  EXPECT_THAT(Error("file,kind\n,x\n"),
              HasSubstr("labels.csv:2: column \"file\": the field is empty"));
  EXPECT_THAT(Error("file,kind\na/0.png,\n"),
              HasSubstr("labels.csv:2: column \"kind\": the target is missing"));
  EXPECT_THAT(Error("file,kind\na/0.png,x\na/1.png,nan\n", "target: \"kind\" target_kind: LABELS"),
              AllOf(HasSubstr("labels.csv:2: column \"kind\": \"x\" is no number"),
                    HasSubstr("labels are 0 or 1")));
  EXPECT_THAT(Error("file,kind\na/0.png,1\na/1.png,inf\n", "target: \"kind\" target_kind: NUMBER"),
              HasSubstr("labels.csv:3: column \"kind\": \"inf\" is no finite number"));
  EXPECT_THAT(Error("file,kind\na/0.png,x\na/1.png,x\nb.jpg,x\n"), HasSubstr("the same class"));
  EXPECT_THAT(Error("file,kind\n", ""), HasSubstr("data.target is missing"));
}

TEST_F(LabelledImagesTest, DamagedFilesAreNamedOrSkipped) {
  WriteFile(folder_.File("a/0.png"), PngOf(Gradient(20, 20)).substr(0, 70));
  const std::string target = "target: \"red\" target_kind: LABELS ";
  const std::string table = "file,red\na/0.png,1\na/1.png,0\nb.jpg,1\n";
  const auto sets = Open(table, target);
  ASSERT_TRUE(sets.ok()) << sets.status();
  std::vector<float> pixels(192), targets(1);
  int32_t label = 0;
  const Sample sample = {.values = pixels, .labels = {&label, 1}, .targets = targets};
  EXPECT_THAT(std::string(sets->train->Read({0, 0}, sample).message()),
              AllOf(HasSubstr("a/0.png: cannot be decoded: "), HasSubstr("end early")));
  skip_damaged_ = true;
  const auto skipping = Open(table, target);
  ASSERT_TRUE(skipping.ok()) << skipping.status();
  targets[0] = 7;
  ASSERT_TRUE(skipping->train->Read({0, 0}, sample).ok());
  EXPECT_EQ(label, -1);
  EXPECT_EQ(targets[0], 0);
  EXPECT_EQ(skipping->damage->count(), 1u);
}

TEST(PngFoldersTest, PngAndJpegMayBeMixed) {
  ScratchFolder folder;
  for (const char* set : {"train", "test"}) {
    WriteInFolder(folder.File(std::string(set) + "/a/x.png"), PngOf(Gradient(20, 20, 40)));
    WriteInFolder(folder.File(std::string(set) + "/b/x.PNG"), PngOf(Gradient(20, 20, 200)));
    WriteInFolder(folder.File(std::string(set) + "/b/y.jpg"), JpegOf(Gradient(20, 20, 200)));
  }
  ScratchFolder tars;
  const std::string pairs = TarFile("0.png", PngOf(Gradient(20, 20, 40))) + TarFile("0.cls", "0") +
                            TarFile("1.jpg", JpegOf(Gradient(20, 20, 200))) +
                            TarFile("1.cls", "1") + TarEnd();
  WriteFile(tars.File("train-0.tar"), pairs);
  WriteFile(tars.File("test-0.tar"), pairs);
  for (const ScratchFolder* from : {&folder, &tars}) {
    DataConfig config;
    config.set_format(DataConfig::IMAGES);
    config.set_path(from->path());
    config.set_batch(1);
    config.mutable_images()->set_size(8);
    for (int c = 0; c < 3; ++c) {
      config.add_mean(0);
      config.add_stddev(1);
    }
    const auto sets = OpenData(config, 1);
    ASSERT_TRUE(sets.ok()) << sets.status();
    std::vector<float> pixels(192);
    int32_t label = -1;
    for (size_t i = 0; i < sets->train->size(); ++i) {
      ASSERT_TRUE(sets->train->Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
      EXPECT_NEAR(pixels[150] * 255, label == 0 ? 40 : 200, 3);
    }
  }
}

}  // namespace
}  // namespace psgd
