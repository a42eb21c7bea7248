// Tokens, labels of tokens and of pixels, and floats in idx files, through the real programs: two
// asynchronous workers with compressed updates.
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "tests/system/draws.h"
#include "tests/system/run_test.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/npz_files.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Arrays : public RunTest {
 protected:
  // `model` and `data`: the keys of these sections.
  std::string Config(const std::string& model, const std::string& data, int epochs) const {
    return Write("config.yaml", "name: arrays\nmodel: {" + model + "}\ndata: {batch: 20, " + data +
                                    "}\ntrain: {epochs: " + std::to_string(epochs) + R"(}
optimizer: {adam: {learning_rate: 0.01}}
consistency: {staleness: 4}
compression: {push: {topk: {density: 0.2}}, dense_below: 256}
cluster: {shards: 2, workers: 2}
)");
  }
  Ended Run(const std::string& run, const std::string& config,
            const std::vector<std::string>& more = {"--quiet"}) const {
    std::vector<std::string> command = {"ps-run", config, "--run-dir", Path(run)};
    command.insert(command.end(), more.begin(), more.end());
    return RunProgram(command, std::chrono::seconds(180));
  }
  // The accuracy on the test set, after a run that must end well.
  double Accuracy(const std::string& run, const std::string& config) const {
    const Ended ended = Run(run, config);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.code == 0 ? Summary(run)["test_accuracy"].get<double>() : 0;
  }
  std::string Npz(const std::string& name, const std::string& x, const std::string& y) const {
    return Write(name, ZipOf({{"x.npy", x}, {"y.npy", y}}));
  }
};

// Rows of tokens from 1 to 39, of which a class has its own ten.
constexpr size_t kTexts = 1000, kLength = 8;

struct Texts {
  std::vector<int64_t> tokens, classes;
};

Texts MakeTexts() {
  Draws draw(77);
  Texts texts;
  for (size_t i = 0; i < kTexts; ++i) {
    const auto kind = static_cast<int64_t>(draw.Below(3));
    texts.classes.push_back(kind);
    for (size_t t = 0; t < kLength; ++t) {
      const bool own = t == 0 || draw.Unit() < 0.5f;
      texts.tokens.push_back(1 + draw.Below(10) + (own ? 10 * (1 + kind) : 0));
    }
  }
  return texts;
}

TEST_F(Arrays, TokensTrainAnEmbedding) {
  const Texts texts = MakeTexts();
  const std::string data =
      "format: arrays, path: " + Npz("texts.npz", NpyOf("<i8", {kTexts, kLength}, texts.tokens),
                                     NpyOf("<i8", {kTexts}, texts.classes));
  EXPECT_GT(Accuracy("texts", Config("zoo: bag_of_tokens", data, 3)), 0.95);
  // The next network may take numbers.
  EXPECT_EQ(Run("numbers", Path("texts/config.yaml"), {"--set", "model={zoo: mlp}"}).code, 0);
  EXPECT_EQ(
      Run("synthetic", Path("texts/config.yaml"),
          {"--set", "data.format=synthetic", "--set", "data.path=", "--set", "model={zoo: mlp}"})
          .code,
      0);
  const Ended misfit = Run("misfit", Path("texts/config.yaml"),
                           {"--set", "model={zoo: mlp}", "--set", "data.input=tokens"});
  EXPECT_EQ(misfit.code, 2);
  EXPECT_THAT(misfit.err, HasSubstr("data.input is tokens: leave it out"));

  const std::string fresh =
      Write("new.npy", NpyOf<int32_t>("<i4", {1, kLength}, {31, 32, 33, 1, 2, 31, 32, 0}));
  const Ended predicted =
      RunProgram({"ps-ctl", "predict", "--run-dir", Path("texts"), "--data", fresh});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("class,probability\n2,"));
  const Ended padded = RunProgram(
      {"ps-ctl", "predict", "--run-dir", Path("texts"), "--data",
       Write("front.npy", NpyOf<int32_t>("<i4", {1, kLength}, {0, 0, 31, 32, 33, 1, 2, 31}))});
  EXPECT_EQ(padded.code, 0) << padded.err;
  EXPECT_THAT(padded.err, HasSubstr("front.npy: sample 0 has token 31 behind a 0"));
  const Ended unknown = RunProgram(
      {"ps-ctl", "predict", "--run-dir", Path("texts"), "--data",
       Write("far.npy", NpyOf<int32_t>("<i4", {1, kLength}, {31, 32, 33, 1, 2, 31, 32, 400}))});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("far.npy: x[0]: token 400: the run's data had none above 40"));

  Texts front = texts;
  for (size_t row = 1; row < kTexts; row += 4) front.tokens[row * kLength] = 0;
  Npz("front.npz", NpyOf("<i8", {kTexts, kLength}, front.tokens),
      NpyOf("<i8", {kTexts}, front.classes));
  const Ended refused =
      Run("front", Path("texts/config.yaml"), {"--set", "data.path=" + Path("front.npz")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("front.npz: the training sample 1 has token"));
  // A run of an earlier version may have been trained on such data.
  std::filesystem::copy_file(Path("texts.npz"), Path("kept.npz"));
  std::filesystem::copy_file(Path("front.npz"), Path("texts.npz"),
                             std::filesystem::copy_options::overwrite_existing);
  const Ended evaluated = RunProgram({"ps-ctl", "eval", "--run-dir", Path("texts")});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  std::filesystem::rename(Path("kept.npz"), Path("texts.npz"));

  // The input of an ONNX network says that it takes tokens.
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--run-dir", Path("texts"), "--onnx", Path("texts.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_GT(Accuracy("onnx", Config("onnx: " + Path("texts.onnx"), data, 1)), 0.95);
}

TEST_F(Arrays, EachTokenHasALabel) {
  Texts texts = MakeTexts();
  texts.classes.clear();
  for (const int64_t token : texts.tokens) texts.classes.push_back(token / 10);
  for (size_t i = 0; i < texts.classes.size(); i += 50) texts.classes[i] = -100;
  const std::string data =
      "format: arrays, path: " + Npz("tags.npz", NpyOf("<i8", {kTexts, kLength}, texts.tokens),
                                     NpyOf("<i8", {kTexts, kLength}, texts.classes));
  EXPECT_GT(Accuracy("tags", Config("zoo: lstm_lm, width: 16, layers: 1", data, 6)), 0.95);
  const Ended predicted =
      RunProgram({"ps-ctl", "predict", "--run-dir", Path("tags"), "--data", Path("tags.npz")});
  EXPECT_EQ(predicted.code, 2);
  EXPECT_THAT(predicted.err, HasSubstr("a class for each token or pixel"));
}

// A pixel is of class 1 if it is bright.
TEST_F(Arrays, EachPixelHasALabel) {
  constexpr size_t kImages = 50, kSide = 16;
  Draws draw(77);
  std::vector<float> x;
  std::vector<uint8_t> y;
  for (size_t i = 0; i < kImages * kSide * kSide; ++i) {
    const bool bright = draw.Unit() < 0.4f;
    x.push_back((bright ? 8.0f : 1.0f) + draw.Unit());
    y.push_back(i % 40 == 0 ? 255 : bright ? 1 : 0);
  }
  const std::string data =
      "format: arrays, path: " + Npz("masks.npz", NpyOf("<f4", {kImages, 1, kSide, kSide}, x),
                                     NpyOf("|u1", {kImages, kSide, kSide}, y));
  const Ended ended = Run("masks", Config("zoo: unet", data, 1), {});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("ps-ctl eval"), Not(HasSubstr("ps-ctl predict"))));
  // A sample is a pixel of one of the five test images that is not 255.
  EXPECT_EQ(Metrics("masks", "evaluation").back()["samples"], 5 * kSide * kSide * 39 / 40);
}

// The target is the sum of the pixels.
TEST_F(Arrays, FloatsOfIdxFilesAreRead) {
  Draws draw(77);
  for (const auto& [images_file, labels_file, images] :
       {std::tuple{kTrainImages, kTrainLabels, 600u}, std::tuple{kTestImages, kTestLabels, 100u}}) {
    std::vector<float> pixels, sums;
    for (uint32_t i = 0; i < images; ++i) {
      float sum = 0;
      for (int p = 0; p < 4; ++p) sum += pixels.emplace_back(draw.Between(100, 300));
      sums.push_back(sum);
    }
    WriteInFolder(Path("idx/" + std::string(images_file)), IdxOf(0x0d, {images, 2, 2}, pixels));
    WriteInFolder(Path("idx/" + std::string(labels_file)), IdxOf(0x0d, {images}, sums));
  }
  const std::string data = "format: idx, path: " + Path("idx");
  const Ended unsaid = Run("sums", Config("zoo: mlp, hidden: [8]", data, 10));
  EXPECT_EQ(unsaid.code, 2);
  EXPECT_THAT(unsaid.err, AllOf(HasSubstr("train-labels-idx1-ubyte holds floats"),
                                HasSubstr("data.target_kind: number")));
  const Ended ended = Run(
      "sums", Config("zoo: mlp, hidden: [8], loss: squared", data + ", target_kind: number", 10));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(Summary("sums")["test_measures"]["r2"], 0.9);
}

// A network of one channel takes pictures in colour, as grey ones.
TEST_F(Arrays, PicturesBecomeGreyForANetworkOfOneChannel) {
  constexpr size_t kImages = 40, kSide = 28;
  std::vector<float> x;
  std::vector<int32_t> y;
  for (size_t i = 0; i < kImages; ++i) {
    x.insert(x.end(), kSide * kSide, i % 2 == 0 ? 0.0f : 1.0f);
    y.push_back(static_cast<int32_t>(i % 2));
    const std::string pixels(3 * kSide * kSide, i % 2 == 0 ? '\x10' : '\x7f');
    const std::string name = std::string(i % 2 == 0 ? "dark/" : "light/") + std::to_string(i);
    for (const char* set : {"train/", "test/"}) {
      WriteInFolder(Path("pictures/" + (set + name) + ".png"), PngOf(kSide, kSide, pixels));
    }
  }
  const std::string arrays =
      Npz("grey.npz", NpyOf("<f4", {kImages, 1, kSide, kSide}, x), NpyOf("<i4", {kImages}, y));
  Accuracy("grey", Config("zoo: lenet5", "format: arrays, path: " + arrays, 1));
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--run-dir", Path("grey"), "--onnx", Path("grey.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const std::string photos = "format: images, path: " + Path("pictures") + ", images: {size: 28}";
  EXPECT_EQ(Accuracy("photos", Config("onnx: " + Path("grey.onnx"), photos, 4)), 1);
  // Other data need no pictures' keys.
  EXPECT_EQ(Run("synthetic", Path("photos/config.yaml"),
                {"--set", "model={zoo: mlp}", "--set", "data.format=synthetic", "--set",
                 "data.path=", "--set", "data.images.size=null"})
                .code,
            0);
  const Ended predicted = RunProgram(
      {"ps-ctl", "predict", "--run-dir", Path("photos"), "--data", Path("pictures/test/light")});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("1.png,light,"));
}

}  // namespace
}  // namespace psgd
