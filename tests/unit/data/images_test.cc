// Format images: folders and tar shards, from files to batches.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/open_data.h"
#include "tests/unit/data/picture_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

// The blue of a picture gives its class.
std::string ClassJpeg(int label, int width = 40, int height = 30) {
  return JpegOf(Gradient(width, height, 40 + 60 * label));
}

void WriteFolders(const ScratchFolder& folder, int each = 3) {
  const char* names[] = {"ant", "bee", "cat"};
  for (int label = 0; label < 3; ++label) {
    for (int i = 0; i < each; ++i) {
      WriteInFolder(folder.File(std::string("train/") + names[label] + "/" + std::to_string(i) +
                                (i == 0 ? ".JPEG" : ".jpg")),
                    ClassJpeg(label, 40 + i, 30 + 2 * i));
    }
  }
  WriteInFolder(folder.File("train/cat/notes.txt"), "not an image");
  WriteInFolder(folder.File("val/bee/x.jpg"), ClassJpeg(1));
  WriteInFolder(folder.File("val/cat/y.jpeg"), ClassJpeg(2));
}

void WriteShards(const ScratchFolder& folder) {
  WriteFile(folder.File("train-0.tar"),
            TarFile("d/00.cls", "2") + TarFile("d/00.jpg", ClassJpeg(2)) +
                TarFile("d/00.json", "{}") + TarFile("d/01.jpeg", ClassJpeg(0)) +
                TarFile("d/01.cls", "0\n") + TarEnd());
  WriteFile(folder.File("train-1.tar"),
            TarFile("././@LongLink", std::string(200, 'k') + ".jpg" + '\0', 'L') +
                TarFile("k", ClassJpeg(1)) +
                TarFile("././@LongLink", std::string(200, 'k') + ".cls" + '\0', 'L') +
                TarFile("k", "1") + TarEnd());
  WriteFile(folder.File("test-0.tar"),
            TarFile("00.jpg", ClassJpeg(1)) + TarFile("00.cls", "1") + TarEnd());
}

DataConfig Config(const std::string& path, const std::string& more = "") {
  DataConfig config;
  const std::string text =
      "format: IMAGES path: \"" + path + "\" batch: 2 images { size: 16 } " + more;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

std::string Error(const std::string& path, const std::string& more = "") {
  const auto sets = OpenData(Config(path, more), 1);
  return sets.ok() ? "no error" : std::string(sets.status().message());
}

constexpr char kNoNormalisation[] = "mean: [0, 0, 0] stddev: [1, 1, 1] ";

// Returns all labels, after a check that each sample's blue fits its label.
std::vector<int> Labels(const SampleSource& source) {
  std::vector<int> labels;
  std::vector<float> pixels(source.shape().elements());
  for (size_t i = 0; i < source.size(); ++i) {
    int32_t label = -1;
    EXPECT_TRUE(source.Read({0, i}, {.values = pixels, .labels = {&label, 1}}).ok());
    EXPECT_NEAR(pixels[2 * 256 + 100] * 255, 40 + 60 * label, 12);
    labels.push_back(label);
  }
  return labels;
}

TEST(ImagesTest, FoldersAreClassesInTurn) {
  ScratchFolder folder;
  WriteFolders(folder);
  const auto sets = OpenData(Config(folder.path(), kNoNormalisation), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.ImageText(), "3x16x16");
  EXPECT_EQ(sets->shape.classes, 3);
  EXPECT_THAT(Labels(*sets->train), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(Labels(*sets->test), ElementsAre(1, 2));
}

TEST(ImagesTest, ShardsInTheirOrder) {
  ScratchFolder folder;
  WriteShards(folder);
  const auto sets = OpenData(Config(folder.path(), kNoNormalisation), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.classes, 3);
  EXPECT_THAT(Labels(*sets->train), ElementsAre(2, 0, 1));
  EXPECT_THAT(Labels(*sets->test), ElementsAre(1));
}

TEST(ImagesTest, NormalisedByTheConstantsOfTheLiterature) {
  ScratchFolder folder;
  WriteFolders(folder);
  const auto sets = OpenData(Config(folder.path()), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(sets->normalization.mean, ElementsAre(0.485f, 0.456f, 0.406f));
  std::vector<float> pixels(768);
  int32_t label;
  ASSERT_TRUE(sets->train->Read({0, 0}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_NEAR(pixels[600], (40.0 / 255 - 0.406) / 0.225, 0.1);
}

TEST(ImagesTest, TheMiddleIsWhatATestSees) {
  ScratchFolder folder;
  WriteFolders(folder);
  const auto sets =
      OpenData(Config(folder.path(), std::string(kNoNormalisation) + "augment { flip: true }"), 1);
  ASSERT_TRUE(sets.ok());
  std::vector<float> pixels(768), again(768);
  int32_t label;
  ASSERT_TRUE(sets->test->Read({0, 0}, {.values = pixels, .labels = {&label, 1}}).ok());
  ASSERT_TRUE(sets->test->Read({7, 0}, {.values = again, .labels = {&label, 1}}).ok());
  EXPECT_EQ(pixels, again);
  // The shorter side is 30, of which 26.25 are visible: red goes from 6.9 to 33.1 of 39.
  EXPECT_NEAR(pixels[0], (6.875 + 0.32) / 39, 0.05);
  EXPECT_NEAR(pixels[15], (33.125 - 1.32) / 39, 0.05);
}

std::vector<std::vector<float>> Batches(const DataConfig& config, int threads) {
  const auto sets = OpenData(config, 3);
  EXPECT_TRUE(sets.ok()) << sets.status();
  BatchLoader loader(sets->train, {.batch = 2, .prefetch = 3, .threads = threads, .seed = 3});
  std::vector<std::vector<float>> batches;
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (uint32_t b = 0; b < loader.batches_per_epoch(); ++b) loader.Enqueue(epoch, b);
  }
  for (uint32_t i = 0; i < 2 * loader.batches_per_epoch(); ++i) {
    const auto batch = loader.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    batches.emplace_back(batch->pixels.begin(), batch->pixels.end());
  }
  return batches;
}

TEST(ImagesTest, AnyNumberOfThreadsMakesTheSameBatches) {
  ScratchFolder folder;
  WriteFolders(folder);
  const DataConfig config =
      Config(folder.path(),
             "augment { resized_crop: true flip: true brightness: 0.4 contrast: 0.4 "
             "saturation: 0.4 hue: 0.1 }");
  const auto one = Batches(config, 1);
  EXPECT_EQ(one, Batches(config, 4));
  EXPECT_NE(one[0], one[one.size() / 2]) << "another epoch, other parts";
}

TEST(ImagesTest, AWorkerOpensOnlyItsShare) {
  ScratchFolder folder;
  WriteFolders(folder);
  const auto sets = OpenData(Config(folder.path()), 3);
  ASSERT_TRUE(sets.ok());
  BatchLoader loader(sets->train, {.batch = 2, .prefetch = 3, .threads = 1, .seed = 3});
  // Images that are not in this worker's batches may be missing.
  EpochOrder order(sets->train->size(), 2, 3);
  std::vector<bool> own(9);
  for (const uint32_t b : {0u, 2u}) {
    for (const uint32_t sample : order.Batch(0, b)) own[sample] = true;
  }
  const char* names[] = {"ant", "bee", "cat"};
  for (size_t i = 0; i < 9; ++i) {
    if (own[i]) continue;
    const std::string stem =
        folder.File(std::string("train/") + names[i % 3] + "/" + std::to_string(i / 3));
    std::filesystem::remove(stem + (i < 3 ? ".JPEG" : ".jpg"));
  }
  for (const uint32_t b : {0u, 2u, 1u}) loader.Enqueue(0, b);
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_FALSE(loader.Next().ok());
}

TEST(ImagesTest, ClassesOfArchivesWithoutASampleAreNoted) {
  ScratchFolder folder;
  WriteShards(folder);
  EXPECT_EQ(OpenData(Config(folder.path()), 1)->note, "");
  WriteFile(folder.File("train-1.tar"),
            TarFile("k.jpg", ClassJpeg(1)) + TarFile("k.cls", "41") + TarEnd());
  const auto sets = OpenData(Config(folder.path(), "train_samples: 2"), 1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(sets->note, AllOf(HasSubstr("39 of the 42 classes have no training sample"),
                                HasSubstr("the largest label is 41 ("),
                                HasSubstr("train-1.tar, member k.jpg)")));
}

TEST(ImagesTest, DamageIsNamedOrLeftOut) {
  ScratchFolder folder;
  WriteShards(folder);
  std::string jpeg = ClassJpeg(0);
  jpeg.resize(jpeg.size() / 2);
  WriteFile(folder.File("train-0.tar"), TarFile("d/00.jpg", ClassJpeg(2)) +
                                            TarFile("d/00.cls", "2") + TarFile("d/01.jpg", jpeg) +
                                            TarFile("d/01.cls", "0") + TarEnd());
  std::vector<float> pixels(768);
  int32_t label = 5;
  const auto strict = OpenData(Config(folder.path()), 1);
  ASSERT_TRUE(strict.ok()) << strict.status();
  EXPECT_EQ(strict->damage, nullptr);
  EXPECT_TRUE(strict->train->Read({0, 0}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_THAT(
      std::string(strict->train->Read({0, 1}, {.values = pixels, .labels = {&label, 1}}).message()),
      AllOf(HasSubstr("train-0.tar, member d/01.jpg"), HasSubstr("cannot be decoded"),
            HasSubstr("replace the file, or skip such files (data.images.skip_damaged=true)")));

  DataConfig config = Config(folder.path());
  config.mutable_images()->set_skip_damaged(true);
  const auto lenient = OpenData(config, 1);
  ASSERT_TRUE(lenient.ok());
  EXPECT_TRUE(lenient->train->Read({0, 1}, {.values = pixels, .labels = {&label, 1}}).ok());
  EXPECT_EQ(label, -1);
  EXPECT_EQ(lenient->damage->count(), 1u);
  EXPECT_THAT(lenient->damage->last(), HasSubstr("member d/01.jpg"));
  std::filesystem::remove(folder.File("train-1.tar"));
  EXPECT_FALSE(lenient->train->Read({0, 2}, {.values = pixels, .labels = {&label, 1}}).ok())
      << "gone is not damaged";
}

TEST(ImagesTest, FoldersThatDoNotFit) {
  ScratchFolder folder;
  EXPECT_THAT(Error("/nowhere"), AllOf(HasSubstr("/nowhere (no such folder)"),
                                       HasSubstr("train-*.tar"), HasSubstr("check data.path")));
  EXPECT_THAT(Error("/nowhere/test"),
              AllOf(HasSubstr("check data.path"), Not(HasSubstr("the folder that holds"))));
  EXPECT_THAT(Error(folder.path()), HasSubstr("looked for a folder train"));
  WriteInFolder(folder.File("train/ant/0.jpg"), ClassJpeg(0));
  EXPECT_THAT(Error(folder.path()),
              AllOf(HasSubstr("neither test nor val"),
                    HasSubstr("folders of the same names in " + folder.File("test"))));
  WriteInFolder(folder.File("valid/ant/0.jpg"), ClassJpeg(0));
  EXPECT_THAT(Error(folder.path()), EndsWith("rename " + folder.File("valid") + " to val"));
  for (const char* end : {"train", "train/"}) {
    const std::string classes = folder.File(end);
    EXPECT_THAT(Error(classes), HasSubstr("set data.path to the folder that holds train: " +
                                          folder.path() + ", or name a table"));
  }
  WriteInFolder(folder.File("test/dog/0.jpg"), ClassJpeg(0));
  EXPECT_THAT(Error(folder.path()),
              AllOf(HasSubstr("/train has one folder"), HasSubstr("classes are at least 2")));
  WriteInFolder(folder.File("train/bee/0.jpg"), ClassJpeg(0));
  EXPECT_THAT(Error(folder.path()), AllOf(HasSubstr("test/dog"), HasSubstr("no training image")));
  std::filesystem::create_directory(folder.File("train/dog"));
  EXPECT_THAT(Error(folder.path()), AllOf(HasSubstr("train/dog"), HasSubstr("holds no .jpg")));
  WriteFile(folder.File("train-0.tar"), TarEnd());
  EXPECT_THAT(Error(folder.path()), HasSubstr("both a folder train and train-*.tar"));
}

TEST(ImagesTest, ClassesWithoutSets) {
  ScratchFolder folder;
  WriteInFolder(folder.File("ant/0.jpg"), ClassJpeg(0));
  WriteInFolder(folder.File("bee/0.jpg"), ClassJpeg(0));
  EXPECT_THAT(
      Error(folder.path()),
      HasSubstr("if its folders, as ant, are the classes, move them to " + folder.File("train") +
                ", and some files of each to folders of the same "
                "names in " +
                folder.File("test")));
}

TEST(ImagesTest, KeysFromElsewhere) {
  for (const char* keys : {"augment { crop_area: 0 }", "augment { crop_area: nan }",
                           "augment { crop_ratio: 0.5 }", "augment { crop_ratio: inf }"}) {
    EXPECT_THAT(Error("/nowhere", keys), HasSubstr("crop_area is")) << keys;
  }
  DataConfig config = Config("/nowhere");
  config.mutable_images()->set_resize(8);
  EXPECT_THAT(std::string(OpenData(config, 1).status().message()),
              HasSubstr("data.images.size is 16 and data.images.resize 8"));
  config.mutable_images()->set_size(0);
  EXPECT_THAT(std::string(OpenData(config, 1).status().message()),
              HasSubstr("data.images.size is 0"));
}

TEST(ImagesTest, ShardsThatDoNotFit) {
  const std::string image = TarFile("a.jpg", ClassJpeg(0));
  const auto error = [&](const std::string& train) {
    ScratchFolder folder;
    WriteShards(folder);
    WriteFile(folder.File("train-0.tar"), train);
    return Error(folder.path());
  };
  EXPECT_THAT(error(image + TarEnd()),
              AllOf(HasSubstr("train-0.tar"), HasSubstr("a.jpg"), HasSubstr("no .cls member")));
  EXPECT_THAT(error(image + image + TarEnd()), HasSubstr("comes twice"));
  for (const char* label : {"", "x", "-1", "3.5", "99999999999", "1048576"}) {
    EXPECT_THAT(error(image + TarFile("a.cls", label) + TarEnd()),
                AllOf(HasSubstr("a.cls"), HasSubstr("not the number of a class")))
        << label;
  }
  EXPECT_THAT(error(image + TarFile("a.cls", "0")), HasSubstr("truncated"));
  ScratchFolder folder;
  WriteShards(folder);
  WriteFile(folder.File("test-0.tar"), image + TarFile("a.cls", "3") + TarEnd());
  EXPECT_THAT(Error(folder.path()),
              AllOf(HasSubstr("a.jpg"), HasSubstr("is of class 3"), HasSubstr("end at 2")));
  std::filesystem::remove(folder.File("train-1.tar"));
  WriteFile(folder.File("train-0.tar"), image + TarFile("a.cls", "0") + TarEnd());
  EXPECT_THAT(Error(folder.path()),
              HasSubstr("all .cls members of train-*.tar are 0; classes are at least 2"));
  std::filesystem::remove(folder.File("test-0.tar"));
  EXPECT_THAT(Error(folder.path()), HasSubstr("neither test-*.tar nor val-*.tar"));
}

}  // namespace
}  // namespace psgd
