// ps-run on image files that the test makes: users' kinds of data, small enough for seconds.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "data/jpeg.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ImagesRun : public RunTest {
 protected:
  void WriteIn(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    Write(name, contents);
  }

  // Stripes whose direction and color show the class.
  static std::string CifarRecords(int count, int first) {
    std::string records;
    for (int i = first; i < first + count; ++i) {
      const int label = i % 10;
      records += static_cast<char>(label);
      for (int c = 0; c < 3; ++c) {
        for (int p = 0; p < 1024; ++p) {
          const int x = p % 32 + i, y = p / 32 + i / 3;
          const int along = label % 2 == 0 ? x : y;
          const bool stripe = along / (2 + label / 4) % 2 == 0;
          const bool coloured = label % 3 == c;
          records += static_cast<char>(60 + (stripe ? 70 : 0) + (coloured ? 90 : 0) + i * p % 23);
        }
      }
    }
    return records;
  }

  void WriteCifar() const {
    for (int file = 1; file <= 5; ++file) {
      WriteIn("cifar/data_batch_" + std::to_string(file) + ".bin", CifarRecords(128, 128 * file));
    }
    WriteIn("cifar/test_batch.bin", CifarRecords(100, 7));
  }

  static std::string Jpeg(int width, int height,
                          const std::function<int(int x, int y, int c)>& value) {
    Picture picture(width, height, 3);
    for (int i = 0; i < width * height * 3; ++i) {
      picture.pixels[static_cast<size_t>(i)] =
          static_cast<uint8_t>(value(i / 3 % width, i / 3 / width, i % 3));
    }
    const auto bytes = EncodeJpeg(picture, 90);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return {bytes->begin(), bytes->end()};
  }

  // Images with a bright disk, which is the class, on a dark background.
  void WritePairs(const std::string& set, int count) const {
    for (int i = 0; i < count; ++i) {
      const auto inside = [&](int x, int y) {
        return std::hypot(x - 14 - i % 5, y - 12 - i % 7) < 8;
      };
      const std::string name = "pairs/" + set + "/";
      WriteIn(name + "images/" + std::to_string(i) + ".jpg",
              Jpeg(40, 36, [&](int x, int y, int c) { return inside(x, y) ? 220 - 20 * c : 40; }));
      std::string mask = "P5 40 36 255\n";
      for (int p = 0; p < 40 * 36; ++p) mask += static_cast<char>(inside(p % 40, p / 40) ? 1 : 0);
      WriteIn(name + "masks/" + std::to_string(i) + ".pgm", mask);
    }
  }

  void WriteFolders() const {
    for (const char* set : {"train", "test"}) {
      for (int label = 0; label < 2; ++label) {
        for (int i = 0; i < (set[1] == 'r' ? 32 : 8); ++i) {
          WriteIn("folders/" + std::string(set) + (label == 0 ? "/red/" : "/blue/") +
                      std::to_string(i) + ".jpg",
                  Jpeg(48, 40, [&](int x, int y, int c) {
                    return (c == 2 * label ? 180 : 40) + (x + y * i) % 30;
                  }));
        }
      }
    }
  }

  Ended Run(const std::string& run, const std::string& yaml,
            const std::vector<std::string>& more = {}) const {
    return RunProgram(std::vector<std::string>{"ps-run", Write(run + ".yaml", yaml), "--run-dir",
                                               Path(run), "--json", "--quiet"} +
                          more,
                      std::chrono::seconds(300));
  }

  std::string CifarYaml(const std::string& folder) const {
    return "name: cifar\nmodel: {zoo: resnet20}\ndata: {format: cifar10, path: " + Path(folder) +
           ", batch: 16, augment: {crop_padding: 4}}\ntrain: {epochs: 3}\n"
           "optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}}\nschedule: {cosine: {}}\n"
           "cluster: {shards: 2, workers: 2, segment: 10}\n";
  }
};

TEST_F(ImagesRun, ResNetLearnsFromCifarFiles) {
  WriteCifar();
  const Ended ended = Run("run", CifarYaml("cifar"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::vector<Json> evaluations = Metrics("run", "evaluation");
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_LT(evaluations[2]["loss"].get<double>(), evaluations[0]["loss"].get<double>());
  const Json summary = Summary("run");
  EXPECT_EQ(summary["steps"], 3 * 640 / 16);
  EXPECT_GT(summary["test_accuracy"], 0.5) << "a guess has 0.1";
  ASSERT_FALSE(Metrics("run", "progress").empty());
  EXPECT_TRUE(Metrics("run", "progress").back().contains("input_stall"));
}

// Both runs have two workers, since batch normalization depends on a worker's batch.
TEST_F(ImagesRun, ResNetFollowsTheReference) {
  WriteCifar();
  const std::vector<std::string> settings = {"train.epochs=2", "data.batch=4",
                                             "data.train_samples=8", "data.test_samples=4"};
  const Ended ended = Run("run", CifarYaml("cifar"), Sets(settings));
  ASSERT_EQ(ended.code, 0) << ended.err;
  RunOnReference("reference", Path("run.yaml"), settings, 2);
  const std::vector<double> losses = Losses("run"), expected = Losses("reference");
  ASSERT_EQ(losses.size(), 2u);
  ASSERT_EQ(expected.size(), 2u);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]);
  EXPECT_LT(losses[1], losses[0]);
}

TEST_F(ImagesRun, UnetTrainsOnSegmentationPairs) {
  WritePairs("train", 6);
  WritePairs("test", 2);
  const Ended ended =
      Run("run",
          "name: pairs\nmodel: {zoo: unet}\ndata: {format: segmentation, path: " + Path("pairs") +
              ", batch: 1, eval_batch: 1, images: {size: 16, resize: 16, classes: 2}, "
              "augment: {resized_crop: true, crop_area: 0.5, flip: true}}\n"
              "train: {epochs: 1}\noptimizer: {sgd: {learning_rate: 0.01, momentum: 0.9}}\n"
              "cluster: {shards: 2, workers: 2, segment: 4}\n");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json summary = Summary("run");
  EXPECT_GE(summary["steps"], 4);
  EXPECT_EQ(Metrics("run", "evaluation").back()["samples"], 2 * 16 * 16) << "pixels are counted";
  EXPECT_TRUE(std::isfinite(summary["test_loss"].get<double>()));
}

// After so few steps the running statistics of its many normalizations are not near the data's yet.
// So the test looks at the training loss.
TEST_F(ImagesRun, GooglenetLearns) {
  const Ended ended =
      Run("run",
          "name: small\nmodel: {zoo: googlenet}\n"
          "data: {format: synthetic, batch: 8, synthetic: {shape: [3, 32, 32], "
          "classes: 4, noise: 0.5, train_samples: 192, test_samples: 32}}\n"
          "train: {epochs: 2}\noptimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}}\n"
          "cluster: {shards: 2, workers: 2, segment: 12}\n");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["steps"], 2 * 192 / 8);
  double least = std::log(4);  // loss of a guess
  for (const Json& progress : Metrics("run", "progress")) {
    // The last record is written after the workers have left.
    if (progress["workers"] > 0 && progress["steps"] > 0 && !progress["loss"].is_null()) {
      least = std::min(least, progress["loss"].get<double>());
    }
  }
  EXPECT_LT(least, 0.5 * std::log(4));
}

TEST_F(ImagesRun, FoldersOfJpegTrainAndADamagedOneIsNamed) {
  WriteFolders();
  const std::string yaml =
      "name: folders\nmodel: {zoo: resnet20}\ndata: {format: images, path: " + Path("folders") +
      ", batch: 8, threads: 2, images: {size: 32}, augment: {resized_crop: true, flip: true, "
      "brightness: 0.2}}\ntrain: {epochs: 2}\n"
      "optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}}\ncluster: {shards: 2, workers: 2}\n";
  const Ended ended = Run("run", yaml);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["steps"], 2 * 64 / 8);

  const std::string whole = File("folders/train/red/5.jpg");
  WriteIn("folders/train/red/5.jpg", whole.substr(0, whole.size() / 2));
  const Ended strict = Run("strict", yaml);
  EXPECT_EQ(strict.code, 1);
  EXPECT_THAT(File("strict/worker-1/worker.log") + File("strict/worker-2/worker.log"),
              AllOf(HasSubstr("train/red/5.jpg"), HasSubstr("cannot be decoded")));
  const Ended lenient = Run("lenient", yaml, Sets({"data.images.skip_damaged=true"}));
  EXPECT_EQ(lenient.code, 0) << lenient.err;
  EXPECT_THAT(
      File("lenient/worker-1/worker.log") + File("lenient/worker-2/worker.log"),
      AllOf(HasSubstr("damaged samples were read and left out"), HasSubstr("train/red/5.jpg")));
}

// If a step leaves ten times the time that a batch takes, the next batch is ready. Otherwise the
// step waits for it.
TEST_F(ImagesRun, BatchesAreMadeWhileAStepRuns) {
  const std::string image =
      Jpeg(640, 480, [](int x, int y, int c) { return 40 * c + (x * y / 64) % 90; });
  for (int i = 0; i < 256; ++i) {
    WriteIn("many/train/" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg", image);
  }
  for (int i : {0, 1}) WriteIn("many/test/" + std::to_string(i) + "/0.jpg", image);
  const std::string config = Write(
      "many.yaml",
      "name: many\nmodel: {zoo: mlp, hidden: [16]}\ndata: {format: images, path: " + Path("many") +
          ", batch: 8, eval_batch: 2, threads: 1, images: {size: 32}}\n"
          "train: {epochs: 1}\noptimizer: {sgd: {learning_rate: 0.01}}\n"
          "cluster: {shards: 1, workers: 1, segment: 128}\n");
  const auto train = [&](const std::string& run, int delay_ms) {
    Process server({"ps-server", "--config", config, "--port", "0", "--run-dir", Path(run)});
    Process worker({"ps-worker", "--cpu", "--server", ServerOf(server), "--step-delay",
                    std::to_string(delay_ms) + "ms"});
    EXPECT_EQ(worker.Wait().code, 0) << worker.Err();
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    return Summary(run);
  };
  const Json fast = train("fast", 0);
  const double step_ms = 8 * 1000 / fast["samples_per_second"].get<double>();
  const Json slow = train("slow", static_cast<int>(2 + 10 * step_ms));
  EXPECT_EQ(slow["steps"], 32);
  // Without overlap both would be equal: a delay is not part of a step.
  EXPECT_LT(slow["input_stall"].get<double>(), fast["input_stall"].get<double>())
      << "steps took " << step_ms << " ms";
}

TEST_F(ImagesRun, WhatIsMissingIsSaidBeforeTraining) {
  const Ended cifar = Run("run", CifarYaml("nowhere"));
  EXPECT_EQ(cifar.code, 2) << cifar.err;
  EXPECT_THAT(cifar.err,
              AllOf(HasSubstr(Path("nowhere") + " is no folder"), HasSubstr("data_batch_1.bin")));
  for (const char* format : {"images", "segmentation"}) {
    const Ended ended =
        Run("run", CifarYaml("nowhere"),
            Sets({std::string("data.format=") + format, "data.augment=",
                  format[0] == 's' ? "data.images.classes=2" : "data.images.size=32"}));
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr(Path("nowhere")), HasSubstr("check data.path")));
  }
  WriteCifar();
  const Ended labels = Run("run", CifarYaml("cifar"), Sets({"model.zoo=unet"}));
  EXPECT_EQ(labels.code, 2) << labels.err;
  EXPECT_THAT(labels.err, HasSubstr("needs data.format: segmentation"));
  EXPECT_FALSE(std::filesystem::exists(Path("run")));
}

}  // namespace
}  // namespace psgd
