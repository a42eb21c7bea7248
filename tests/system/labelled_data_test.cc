// Labelled texts, PNG files, images with a table of labels, and numbers in LIBSVM files, through
// the real programs: two asynchronous workers with compressed updates.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/system/draws.h"
#include "tests/system/run_test.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LabelledData : public RunTest {
 protected:
  // Writes Path(name) and the folders above it.
  void Put(const std::string& name, const std::string& contents) const {
    WriteInFolder(Path(name), contents);
  }
  // `model` and `data`: the keys of these sections.
  std::string Config(const std::string& model, const std::string& data, int epochs) const {
    return Write("config.yaml", "name: labelled\nmodel: {" + model + "}\ndata: {" + data +
                                    "}\ntrain: {epochs: " + std::to_string(epochs) + R"(}
optimizer: {adam: {learning_rate: 0.01}}
schedule: {cosine: {floor: 0.05}}
consistency: {staleness: 4}
compression: {push: {topk: {density: 0.1}}, dense_below: 256}
cluster: {shards: 2, workers: 2}
)");
  }
  Ended Run(const std::string& run, const std::string& config,
            const std::vector<std::string>& settings = {}) const {
    return RunProgram(
        std::vector<std::string>{"ps-run", config, "--run-dir", Path(run), "--quiet"} +
            Sets(settings),
        std::chrono::seconds(180));
  }
  double Measure(const std::string& run, const std::string& name) const {
    return Summary(run)["test_measures"][name];
  }
  // The error of a run that must not begin.
  std::string Refused(const std::string& config,
                      const std::vector<std::string>& settings = {}) const {
    const Ended ended = Run("refused", config, settings);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(Path("refused")));
    return ended.err;
  }
};

constexpr const char* kTopics[] = {"bread", "ships", "stars"};

// A sentence of a topic: some words of its own among words that all have.
std::string Sentence(uint32_t topic, Draws* draw) {
  static const char* const own[3][4] = {{"flour", "oven", "yeast", "crust"},
                                        {"sail", "harbour", "anchor", "rudder"},
                                        {"comet", "orbit", "galaxy", "moon"}};
  static const char* const common[] = {"the", "of", "and", "with", "under", "old", "new", "near"};
  std::string text;
  const uint32_t words = 5 + draw->Below(12);
  for (uint32_t i = 0; i < words; ++i) {
    text += i == 0 ? "" : " ";
    text += i == 2 || draw->Below(6) == 0 ? own[topic][draw->Below(4)] : common[draw->Below(8)];
  }
  return text;
}

std::string TopicTable(int rows) {
  Draws draw(91);
  std::string table = "topic,text\n";
  for (int i = 0; i < rows; ++i) {
    const uint32_t topic = draw.Below(3);
    table += std::string(kTopics[topic]) + "," + Sentence(topic, &draw) + "\n";
  }
  return table;
}

constexpr char kText[] = "tokens: bpe, vocabulary: 300, text: {length: 48}, batch: 16";

TEST_F(LabelledData, TextsOfATableAreClassified) {
  const std::string path = Write("topics.csv", TopicTable(1200));
  const std::string config =
      Config("zoo: bag_of_tokens, width: 32",
             "format: text_classes, target: topic, path: " + path + ", " + kText, 6);
  const Ended dry = RunProgram({"ps-worker", "--cpu", "--dry-run", config});
  EXPECT_EQ(dry.code, 0) << dry.err;
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(Summary("run")["test_accuracy"], 0.95);
  EXPECT_EQ(Metrics("run", "evaluation").back()["samples"], 120) << "texts are counted";
  const Ended eval = RunProgram({"ps-ctl", "eval", "--run-dir", Path("run"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["test_accuracy"], Summary("run")["test_accuracy"], 1e-6);
  // The ONNX file has one output for all tokens.
  ASSERT_EQ(
      RunProgram({"ps-ctl", "export", "--run-dir", Path("run"), "--onnx", Path("a.onnx")}).code, 0);
  EXPECT_THAT(RunProgram({"ps-ctl", "onnx", "check", Path("a.onnx")}).out,
              HasSubstr("psgd takes all of it"));

  const Ended predict =
      RunProgram({"ps-ctl", "predict", "--run-dir", Path("run"), "--data",
                  Write("new.csv", "text\nthe flour of the oven\n\"the old anchor, and sail\"\n")});
  ASSERT_EQ(predict.code, 0) << predict.err;
  EXPECT_THAT(predict.out,
              testing::MatchesRegex("class,probability\nbread,[0-9.]+\nships,[0-9.]+\n"));

  EXPECT_THAT(Refused(config, {"data.target=topics"}),
              AllOf(HasSubstr("topics.csv:1: no column is named \"topics\", as data.target says"),
                    HasSubstr("did you mean \"topic\"?")));
  EXPECT_THAT(Refused(config, {"data.path=" + Path("none.csv")}), HasSubstr("none.csv"));
  EXPECT_THAT(Refused(config, {"model.zoo=gpt"}), HasSubstr("samples are texts with one label"));
  Write("topics.csv", TopicTable(20) + "bread\n");
  EXPECT_THAT(Refused(config), HasSubstr("topics.csv:22: 1 fields, but the first line names 2"));
  Write("topics.csv", TopicTable(20) + "bread,\n");
  EXPECT_THAT(Refused(config), HasSubstr("topics.csv:22: column \"text\": the field is empty"));
}

TEST_F(LabelledData, TextsInFoldersAreClassifiedByATransformer) {
  Draws draw(91);
  for (int i = 0; i < 240; ++i) {
    const uint32_t topic = static_cast<uint32_t>(i) % 3;
    Put("texts/" + std::string(kTopics[topic]) + "/" + std::to_string(i) + ".txt",
        Sentence(topic, &draw));
  }
  const std::string config = Config("zoo: transformer_encoder, layers: 1, width: 32, heads: 2",
                                    "format: text_classes, path: " + Path("texts") + ", " + kText +
                                        ", table: {test_fraction: 0.2}",
                                    6);
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(Summary("run")["test_accuracy"], 0.8) << "a guess has 0.33";
  EXPECT_EQ(Metrics("run", "evaluation").back()["samples"], 48);

  std::filesystem::create_directory(Path("texts/wine"));
  EXPECT_THAT(Refused(config), HasSubstr("texts/wine: holds no file; add some, or remove"));
}

TEST_F(LabelledData, NumbersOfTextsAreLearned) {
  Draws draw(91);
  std::string table = "stars\ttext\n";
  for (int i = 0; i < 600; ++i) {
    const uint32_t topic = draw.Below(3);
    table += std::to_string(1 + 2 * topic) + "\t" + Sentence(topic, &draw) + "\n";
  }
  const std::string path = Write("stars.tsv", table);
  const std::string config =
      Config("zoo: bag_of_tokens, width: 32, loss: squared",
             "format: text_classes, target: stars, path: " + path + ", " + kText, 8);
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_LT(Measure("run", "rmse"), 0.9) << "the deviation is 1.6";
  Write("stars.tsv", table + "many\tbread\n");
  EXPECT_THAT(Refused(config), HasSubstr("stars.tsv:602: column \"stars\": \"many\" is no number"));
  Write("stars.tsv", table + "inf\tbread\n");
  EXPECT_THAT(Refused(config), HasSubstr("\"inf\" is no finite number"));
}

// Whether it is red, and whether its left half is brighter.
struct Shown {
  bool red, left;
};

std::string ShownPng(const Shown& shown, int noise) {
  return PngOf(PictureOf(24, 20, 3, [&](int x, int y, int c) {
    const int light = (x < 12) == shown.left ? 120 : 40;
    return light + (c == (shown.red ? 0 : 2) ? 80 : 0) + (x * 7 + y * noise) % 40;
  }));
}

constexpr char kSmallImages[] = "images: {size: 12, resize: 12";

TEST_F(LabelledData, PngFoldersAreClassified) {
  for (const char* set : {"train", "test"}) {
    for (int i = 0; i < (set[1] == 'r' ? 96 : 24); ++i) {
      const bool red = i % 2 == 0;
      Put("png/" + std::string(set) + (red ? "/red/" : "/blue/") + std::to_string(i) + ".png",
          ShownPng({red, i % 3 == 0}, i));
    }
  }
  const std::string config =
      Config("zoo: mlp, hidden: [16]",
             "format: images, path: " + Path("png") + ", batch: 8, " + kSmallImages + "}", 3);
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(Summary("run")["test_accuracy"], 0.9);
  EXPECT_GT(Measure("run", "auc"), 0.95);

  const auto predict = [&](const std::string& data) {
    return RunProgram(
        {"ps-ctl", "predict", "--run-dir", Path("run"), "--checkpoint", "1", "--data", Path(data)});
  };
  Put("new/a.png", ShownPng({true, true}, 3));
  Put("new/more/b.png", ShownPng({false, true}, 3));
  Put("new/note.txt", "no image");
  const Ended predicted = predict("new");
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out,
              testing::MatchesRegex("file,class,probability\n.*/new/a.png,red,[0-9.]+"
                                    "\n.*/new/more/b.png,blue,[0-9.]+\n"));
  EXPECT_THAT(predict("none").err, HasSubstr("no such file or folder"));
  Put("new/a.png", "no image");
  const Ended unreadable = predict("new");
  EXPECT_EQ(unreadable.code, 2) << unreadable.out;
  EXPECT_EQ(unreadable.out, "");
  EXPECT_THAT(unreadable.err, HasSubstr("new/a.png: "));

  // Damage is found while the run reads the file.
  const std::string whole = File("png/train/red/0.png");
  Put("png/train/red/0.png", whole.substr(0, whole.size() / 2));
  const Ended damaged = Run("damaged", config);
  EXPECT_EQ(damaged.code, 1) << damaged.err;
  EXPECT_THAT(damaged.err,
              AllOf(HasSubstr("red/0.png: cannot be decoded: the PNG data end early")));
  const Ended skipping = Run("skipping", config, {"data.images.skip_damaged=true"});
  EXPECT_EQ(skipping.code, 0) << skipping.err;
}

TEST_F(LabelledData, ImagesHaveLabelsInATable) {
  Draws draw(91);
  std::string table = "file,Red,left half\n";
  for (int i = 0; i < 160; ++i) {
    const Shown shown = {draw.Below(2) == 1, draw.Below(2) == 1};
    const std::string name = "some/" + std::to_string(i) + ".png";
    Put("pictures/" + name, ShownPng(shown, i));
    table += name + "," + (shown.red ? "1" : "0") + "," + (shown.left ? "1" : "0") + "\n";
  }
  Put("pictures/labels.csv", table);
  const std::string config = Config(
      "zoo: mlp, hidden: [16], loss: sigmoid",
      "format: images, target: [Red, left half], path: " + Path("pictures") + ", batch: 8, " +
          kSmallImages + ", labels: labels.csv}, table: {test_fraction: 0.2}",
      5);
  const Ended dry = RunProgram({"ps-worker", "--cpu", "--dry-run", config});
  EXPECT_EQ(dry.code, 0) << dry.err;
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(Measure("run", "f1"), 0.9);
  EXPECT_GT(Measure("run", "auc_red"), 0.9);
  EXPECT_GT(Measure("run", "auc_left_half"), 0.9);
  const Ended report =
      RunProgram({"ps-sweep", "report", Path("run"), "--markdown", "--metric", "auc"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("| auc |"));

  Put("pictures/labels.csv", table + "some/0.png,1,1\n");
  EXPECT_THAT(Refused(config), HasSubstr("labels.csv:162: the file some/0.png comes twice"));
  Put("pictures/labels.csv", table + "other.png,1,1\n");
  EXPECT_THAT(Refused(config), AllOf(HasSubstr("labels.csv:162: there is no file "),
                                     HasSubstr("pictures/other.png")));
  Put("pictures/labels.csv", table + "some/0.png,yes,1\n");
  EXPECT_THAT(Refused(config),
              HasSubstr("labels.csv:162: column \"Red\": \"yes\" is no number; labels are 0 or 1"));
  EXPECT_THAT(Refused(config, {"data.images.labels=none.csv"}), HasSubstr("pictures/none.csv"));
}

// 3 + 2 a - b, and counts of that mean.
std::string LibsvmNumbers(int rows, bool counts) {
  Draws draw(91);
  std::ostringstream text;
  for (int i = 0; i < rows; ++i) {
    const float a = draw.Unit(), b = draw.Unit();
    const float mean = 3 + 2 * a - b;
    float label = mean + 0.1f * (draw.Unit() - 0.5f);
    if (counts) {
      // By Knuth: how many draws until their product falls below exp(-mean).
      label = -1;
      for (float product = 1; product > std::exp(-mean); ++label) product *= draw.Unit();
    }
    text << label << " 1:" << a << " 4:" << b << "\n";
  }
  return text.str();
}

TEST_F(LabelledData, NumbersInLibsvmFiles) {
  const std::string path = Write("numbers", LibsvmNumbers(2000, false));
  const std::string config = Config("zoo: linear_regression, loss: squared",
                                    "format: libsvm, path: " + path + ", batch: 16", 16);
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_LT(Measure("run", "rmse"), 0.06) << "the noise has a deviation of 0.03, the whole 0.65";
  EXPECT_GT(Measure("run", "r2"), 0.99);
  EXPECT_EQ(Summary("run")["test_accuracy"], nullptr);

  Write("numbers", LibsvmNumbers(2000, true));
  const Ended counts = Run("counts", config, {"model.loss=poisson"});
  ASSERT_EQ(counts.code, 0) << counts.err;
  EXPECT_LT(Measure("counts", "rmse"), 2.2) << "the root of the mean is 1.9";

  Write("numbers", "1 1:2\nmuch 1:3\n");
  EXPECT_THAT(Refused(config), HasSubstr("numbers:2: \"much\" is no label"));
  Write("numbers", "1 1:2\nnan 1:3\n");
  EXPECT_THAT(Refused(config), HasSubstr("numbers:2: \"nan\" is no label"));
  Write("numbers", "1 1:2\n-1 1:3\n2 1:1\n");
  EXPECT_THAT(
      Refused(config, {"model.loss=poisson", "data.table.test_fraction=0.4", "data.batch=1"}),
      HasSubstr("numbers:2: its label: -1 is below 0, which no count is"));
  EXPECT_THAT(Refused(config, {"model.zoo=logistic_regression", "data.table.test_fraction=0.4",
                               "data.batch=1"}),
              HasSubstr("use linear_regression"));
}

}  // namespace
}  // namespace psgd
