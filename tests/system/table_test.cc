// Tables with numbers, labels, counts and classes to predict, through the real programs: two
// asynchronous workers with compressed updates.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tests/system/draws.h"
#include "tests/system/run_test.h"
#include "tests/unit/data/npz_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Tables : public RunTest {
 protected:
  // Writes NAME.yaml: an mlp on NAME.csv.
  std::string Config(const std::string& name, const std::string& table, const std::string& loss,
                     const std::string& target, int epochs) const {
    const std::string path = Write(name + ".csv", table);
    return Write(name + ".yaml", "name: " + name +
                                     R"(
model: {zoo: mlp, hidden: [48, 48], loss: )" +
                                     loss +
                                     R"(}
data: {format: table, batch: 32, path: )" +
                                     path + ", target: " + target + R"(}
train: {epochs: )" + std::to_string(epochs) +
                                     R"(}
optimizer: {adam: {learning_rate: 0.005}}
schedule: {warmup: "1 epoch", cosine: {floor: 0.02}}
consistency: {staleness: 4}
compression: {push: {topk: {density: 0.1}}, dense_below: 256}
cluster: {shards: 2, workers: 2}
)");
  }
  Ended Run(const std::string& name, const std::string& config) const {
    return RunProgram({"ps-run", config, "--run-dir", Path(name)}, std::chrono::seconds(180));
  }
  Ended Ctl(const std::vector<std::string>& arguments) const {
    return RunProgram(std::vector<std::string>{"ps-ctl"} + arguments);
  }
};

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

constexpr double kNoise = 12;  // of the prices

// Houses like those of California: the price is a function of income, rooms, age and shore, with
// noise. Some ages are missing.
std::string Houses(int rows) {
  const char* shores[] = {"inland", "bay", "ocean"};
  Draws draw(77);
  std::ostringstream table;
  table << "income,rooms,age,shore,price\n";
  for (int i = 0; i < rows; ++i) {
    const float income = draw.Between(1, 10), rooms = draw.Between(2, 8), age = draw.Between(0, 52);
    const int shore = static_cast<int>(draw.Between(0, 2.999f));
    const double price = 1000 + 40 * income + 15 * income * std::sin(rooms) + 60.0 * shore -
                         0.5 * age + kNoise * draw.Noise();
    table << income << "," << rooms << ",";
    if (draw.Unit() > 0.03f) table << age;
    table << "," << shores[shore] << "," << price << "\n";
  }
  return table.str();
}

TEST_F(Tables, PricesAreLearnedToNearTheirNoise) {
  const std::string config = Config("houses", Houses(6000), "squared", "price", 20);
  const Ended ended = Run("houses", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json summary = Summary("houses");
  const double rmse = summary["test_measures"]["rmse"];
  EXPECT_GT(rmse, 0.9 * kNoise) << "less than the noise";
  EXPECT_LT(rmse, 1.4 * kNoise) << "the prices have a deviation of about 130";
  EXPECT_GT(summary["test_measures"]["r2"], 0.98);
  EXPECT_GT(summary["test_measures"]["mae"], 0.5 * rmse);
  EXPECT_EQ(summary["test_accuracy"], nullptr);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("epoch 20/20: test loss "), HasSubstr(", rmse "),
                               HasSubstr("houses.csv becomes 6 inputs: numbers income, rooms, age; "
                                         "categories shore (3 values)"),
                               Not(HasSubstr("accuracy"))));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("test rmse"), Not(HasSubstr("accuracy")),
                               HasSubstr("ps-ctl predict --run-dir " + Path("houses"))));
  for (const Json& record : Metrics("houses", "progress")) EXPECT_EQ(record["accuracy"], nullptr);
  EXPECT_EQ(Metrics("houses", "evaluation").back()["measures"]["rmse"], rmse);

  const Ended eval = Ctl({"eval", "--run-dir", Path("houses"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["test_measures"]["rmse"], rmse, 1e-3 * rmse);
  // The prices are known, and left out of the new table.
  const std::vector<std::string> rows = Lines(Houses(300));
  std::string unpriced;
  std::vector<double> prices;
  for (const std::string& row : rows) {
    const size_t comma = row.rfind(',');
    unpriced += row.substr(0, comma) + "\n";
    if (!prices.empty() || row != rows[0]) prices.push_back(std::stod(row.substr(comma + 1)));
  }
  const Ended predict =
      Ctl({"predict", "--run-dir", Path("houses"), "--data", Write("new.csv", unpriced)});
  ASSERT_EQ(predict.code, 0) << predict.err;
  const std::vector<std::string> predicted = Lines(predict.out);
  ASSERT_EQ(predicted.size(), rows.size());
  EXPECT_EQ(predicted[0], "price");
  double squares = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    squares += std::pow(std::stod(predicted[i + 1]) - prices[i], 2);
  }
  EXPECT_LT(std::sqrt(squares / static_cast<double>(prices.size())), 1.5 * kNoise);

  const auto error = [&](const std::string& table) {
    const Ended ended =
        Ctl({"predict", "--run-dir", Path("houses"), "--data", Write("bad.csv", table)});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(error("income,rooms,age\n1,2,3\n"), HasSubstr("no column is named \"shore\""));
  EXPECT_THAT(error("income,rooms,age,shore\nlow,2,3,bay\n"),
              HasSubstr("bad.csv:2: column \"income\": \"low\" is no number"));
  EXPECT_EQ(Ctl({"predict", "--run-dir", Path("houses"), "--data", Path("none.csv")}).code, 2);
  const std::string odd = Write("odd.csv", "income,rooms,age,shore\n5,4,30,lake\n");
  const auto odd_ones = [&](const std::vector<std::string>& more) {
    return Ctl(std::vector<std::string>{"predict", "--run-dir", Path("houses"), "--data", odd} +
               more);
  };
  const Ended unknown = odd_ones({});
  EXPECT_EQ(unknown.code, 0) << unknown.err;
  EXPECT_THAT(unknown.err,
              HasSubstr("column \"shore\": 1 of 1 fields have a value that no training row has, as "
                        "\"lake\"; they count as missing"));
  EXPECT_THAT(odd_ones({"--json"}).err, HasSubstr("add --out"));
  EXPECT_EQ(odd_ones({"--out", Path("none/a.csv")}).code, 2);
  const Ended json = odd_ones({"--out", Path("a.csv"), "--json"});
  EXPECT_EQ(Json::parse(json.out)["predictions"], 1) << json.err;
  const Ended unwritten =
      RunProgram({"/bin/sh", "-c", "exec \"$0\" predict --run-dir \"$1\" --data \"$2\" > /dev/full",
                  ProgramPath("ps-ctl"), Path("houses"), odd});
  EXPECT_EQ(unwritten.code, 1);
  EXPECT_THAT(unwritten.err, HasSubstr("could not be written to standard output"));
  // The data changed, so an evaluation would mean nothing.
  Write("houses.csv", Houses(5000));
  const Ended other = Ctl({"eval", "--run-dir", Path("houses")});
  EXPECT_EQ(other.code, 1) << other.out;
  EXPECT_THAT(other.err, HasSubstr("houses.csv is not what the run trained on"));

  const Ended report = RunProgram({"ps-sweep", "report", Path("houses"), "--markdown"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, AllOf(HasSubstr("| rmse |"), Not(HasSubstr("accuracy"))));
}

// Three labels; the second is the opposite of the first, and the third belongs to a circle.
std::string Labels(int rows) {
  Draws draw(77);
  std::ostringstream table;
  table << "x\ty\twarm\tcold\tnear\n";
  for (int i = 0; i < rows; ++i) {
    const float x = draw.Between(-1, 1), y = draw.Between(-1, 1);
    table << x << "\t" << y << "\t" << (x > 0) << "\t" << (x <= 0) << "\t" << (x * x + y * y < 0.5f)
          << "\n";
  }
  return table.str();
}

TEST_F(Tables, LabelsAreLearnedTogether) {
  const Ended ended =
      Run("labels", Config("labels", Labels(4000), "sigmoid", "[warm, cold, near]", 10));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json summary = Summary("labels");
  EXPECT_GT(summary["test_measures"]["f1"], 0.95);
  EXPECT_GT(summary["test_measures"]["label_accuracy"], 0.95);
  EXPECT_EQ(summary["test_accuracy"], nullptr);
  const Ended predict = Ctl({"predict", "--run-dir", Path("labels"), "--data",
                             Write("new.csv", "y,x\n0.1,0.9\n0.1,-0.9\n")});
  ASSERT_EQ(predict.code, 0) << predict.err;
  const std::vector<std::string> lines = Lines(predict.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "warm,cold,near");
  EXPECT_GT(std::stod(lines[1]), 0.9) << "warm, as x is above 0";
  EXPECT_LT(std::stod(lines[2]), 0.1);
}

// Visits come at a rate that grows with the temperature.
std::string Visits(int rows) {
  Draws draw(77);
  std::ostringstream table;
  table << "temperature,day,visits,sunny\n";
  for (int i = 0; i < rows; ++i) {
    const float temperature = draw.Between(0, 30);
    const bool weekend = draw.Unit() < 0.3f;
    const float mean = std::exp(0.05f * temperature + (weekend ? 1 : 0));
    // By Knuth: how many draws until their product falls below exp(-mean).
    int visits = -1;
    for (float product = 1; product > std::exp(-mean); ++visits) product *= draw.Unit();
    table << temperature << "," << (weekend ? "weekend" : "weekday") << "," << visits << ","
          << (temperature > 15 ? "yes" : "no") << "\n";
  }
  return table.str();
}

TEST_F(Tables, CountsAndClassesOfOneTable) {
  const std::string config = Config("visits", Visits(4000), "poisson", "visits", 8);
  const Ended counts = Run("counts", config);
  ASSERT_EQ(counts.code, 0) << counts.err;
  // The variance of a count is its mean, on the whole about 3.5; that of all counts is about 9.7.
  EXPECT_LT(Summary("counts")["test_measures"]["rmse"], 2.4);
  EXPECT_GT(Summary("counts")["test_measures"]["r2"], 0.35);
  const std::string days =
      Write("days.csv", "temperature,day,sunny\n2,weekday,no\n28,weekend,yes\n");
  const Ended many = Ctl({"predict", "--run-dir", Path("counts"), "--data", days});
  ASSERT_EQ(many.code, 0) << many.err;
  ASSERT_EQ(Lines(many.out).size(), 3u);
  EXPECT_EQ(Lines(many.out)[0], "visits");
  EXPECT_NEAR(std::stod(Lines(many.out)[1]), std::exp(0.1), 0.7);
  EXPECT_NEAR(std::stod(Lines(many.out)[2]), std::exp(2.4), 3.5);

  const Ended classes = RunProgram({"ps-run", config, "--run-dir", Path("classes"), "--set",
                                    "model.loss=cross_entropy", "--set", "data.target=sunny"},
                                   std::chrono::seconds(180));
  ASSERT_EQ(classes.code, 0) << classes.err;
  EXPECT_GT(Summary("classes")["test_accuracy"], 0.97);
  EXPECT_THAT(classes.err, HasSubstr("test accuracy"));
  const std::string visited = Write("visited.csv",
                                    "visits,temperature,day\n1,2,weekday\n"
                                    "9,28,weekend\n");
  const Ended named = Ctl(
      {"predict", "--run-dir", Path("classes"), "--data", visited, "--out", Path("classes.csv")});
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("classes.csv: 2 predictions"));
  const std::vector<std::string> lines = Lines(File("classes.csv"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "class,probability");
  EXPECT_EQ(lines[1].substr(0, 3), "no,");
  EXPECT_EQ(lines[2].substr(0, 4), "yes,");
  EXPECT_GT(std::stod(lines[2].substr(4)), 0.8);
  EXPECT_LE(std::stod(lines[2].substr(4)), 1);
}

// Two targets of different units, in NumPy's arrays: 5 + 2 a, and 1000 a b.
TEST_F(Tables, ArraysMayHaveSeveralTargets) {
  Draws draw(77);
  std::vector<float> x;
  std::vector<double> y;
  constexpr size_t kRows = 3000;
  for (size_t i = 0; i < kRows; ++i) {
    const float a = draw.Between(-1, 1), b = draw.Between(-1, 1);
    x.insert(x.end(), {a, b});
    y.insert(y.end(), {5 + 2.0 * a, 1000.0 * a * b});
  }
  const std::string arrays =
      Write("arrays.npz", ZipOf({{"x.npy", NpyOf<float>("<f4", {kRows, 2}, x)},
                                 {"y.npy", NpyOf<double>("<f8", {kRows, 2}, y)}},
                                /*deflated=*/true, /*large=*/true));
  const std::string config = Config("arrays", "", "smooth_l1", "", 15);
  const Ended ended = RunProgram(
      {"ps-run", config, "--run-dir", Path("arrays"), "--set", "data.format=arrays", "--set",
       "data.target=", "--set", "data.path=" + arrays, "--set", "train.average=0.9"},
      std::chrono::seconds(180));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json measures = Summary("arrays")["test_measures"];
  EXPECT_LT(measures["rmse_y0"], 0.2) << "the deviation is 1.15";
  EXPECT_LT(measures["rmse_y1"], 60) << "the deviation is 333";
  EXPECT_GT(measures["r2"], 0.96);

  const std::string fresh = Write("new.npy", NpyOf<float>("<f4", {2, 2}, {0.5, 0.5, -0.5, 0.5}));
  const auto predict = [&](const std::string& run, const std::vector<std::string>& more) {
    const Ended predicted =
        Ctl(std::vector<std::string>{"predict", "--run-dir", Path(run), "--data", fresh} + more);
    EXPECT_EQ(predicted.code, 0) << predicted.err;
    const std::vector<std::string> lines = Lines(predicted.out);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0], "y0,y1");
    EXPECT_NEAR(std::stod(lines[1]), 6, 0.6);
    EXPECT_NEAR(std::stod(lines[1].substr(lines[1].find(',') + 1)), 250, 150);
    EXPECT_NEAR(std::stod(lines[2]), 4, 0.6);
    EXPECT_NEAR(std::stod(lines[2].substr(lines[2].find(',') + 1)), -250, 150);
  };
  predict("arrays", {});
  predict("arrays", {"--average"});
  // The network goes on as an ONNX file.
  const Ended exported =
      Ctl({"export", "--run-dir", Path("arrays"), "--onnx", Path("arrays.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr(Path("arrays.onnx.json") + ": the scales and names"));
  const std::string onnx = Write("onnx.yaml", "name: onnx\nmodel: {onnx: " + Path("arrays.onnx") +
                                                  ", loss: smooth_l1}\ndata: {format: arrays, "
                                                  "batch: 32, path: " +
                                                  arrays +
                                                  "}\ntrain: {epochs: 1, max_steps: 1}\n"
                                                  "optimizer: {sgd: {learning_rate: 0.001}}\n");
  const Ended went_on = Run("onnx", onnx);
  ASSERT_EQ(went_on.code, 0) << went_on.err;
  predict("onnx", {});
}

TEST_F(Tables, WhatMayNotBeMeantIsSaidFirst) {
  std::string sorted = "x,kind\n";
  for (int i = 0; i < 200; ++i) {
    sorted += std::to_string(i % 7) + (i < 100 ? ",first\n" : ",last\n");
  }
  const std::string config = Config("sorted", sorted, "cross_entropy", "kind", 1);
  const Ended ended = RunProgram({"ps-run", config, "--run-dir", Path("run"), "--set",
                                  "schedule.warmup=500 steps", "--set", "model.hidden=[4]"},
                                 std::chrono::seconds(180));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("sorted.csv: all 20 test rows, the last of the file, have the class "
                              "last; mix the rows first"),
                    HasSubstr("codec topk carries 0 of 4 tensors: the others have fewer than 256 "
                              "bytes (compression.dense_below)"),
                    HasSubstr("schedule.warmup is 500 steps, and the run has about 3 with 2 "
                              "workers")));
}

TEST_F(Tables, WrongTablesEndTheProgramBeforeItTrains) {
  const std::string config = Config("houses", Houses(100), "squared", "price", 1);
  const auto error = [&](const std::vector<std::string>& settings) {
    const Ended ended = RunProgram(
        std::vector<std::string>{"ps-run", config, "--run-dir", Path("run")} + Sets(settings));
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error({"data.target=pryce"}),
              HasSubstr("houses.csv:1: no column is named \"pryce\", as data.target says; did you "
                        "mean \"price\"?"));
  EXPECT_THAT(error({"data.target=shore"}),
              AllOf(HasSubstr("houses.csv:2: column \"shore\": "), HasSubstr(" is no number"),
                    HasSubstr("set model.loss to cross_entropy")));
  EXPECT_THAT(error({"model.loss=cross_entropy"}),
              HasSubstr("data.target price has real numbers, as "));
  EXPECT_THAT(error({"data.target_kind=class"}),
              HasSubstr("data.target_kind is class, but model.loss is squared"));
  EXPECT_THAT(error({"model.zoo=lenet5", "model.hidden="}), HasSubstr("does not fit samples of"));
  EXPECT_THAT(error({"data.augment.flip=true"}), HasSubstr("are for images"));

  const std::string table = Houses(100), file = Path("houses.csv");
  const auto with_row = [&](const std::string& row) {
    Write("houses.csv", table + row + "\n");
    return error({});
  };
  EXPECT_THAT(with_row("1,2,3,bay"),
              HasSubstr(file + ":102: 4 fields, but the first line names 5"));
  EXPECT_THAT(with_row("low,2,3,bay,900"),
              HasSubstr(file + ": column \"income\": line 102: \"low\" is no number"));
  EXPECT_THAT(with_row("inf,2,3,bay,900"),
              HasSubstr(file + ": column \"income\": line 102: \"inf\" is no finite number"));
  EXPECT_THAT(with_row("1,2,3,bay,inf"),
              HasSubstr(file + ":102: column \"price\": \"inf\" is no finite number"));
  EXPECT_THAT(with_row("1,2,3,bay,"), HasSubstr(file + ":102: column \"price\": the target is"));
  Write("houses.csv", "1,2,3,4,5\n6,7,8,9,10\n");
  EXPECT_THAT(error({}), HasSubstr("the columns are 1, 2, 3, 4, 5; is the line of column names "
                                   "missing?"));
  const std::string x = NpyOf<float>("<f4", {2, 2}, {1, 2, 3, 4});
  const std::string y = NpyOf<float>("<f4", {2}, {1, 2});
  const std::string npz = ZipOf({{"x.npy", x}, {"y.npy", y}});
  Write("houses.csv", x);
  EXPECT_THAT(error({}), HasSubstr("this is a NumPy file: data.format: arrays reads it"));
  Write("houses.csv", npz);
  EXPECT_THAT(error({}), HasSubstr("data.format: arrays reads an .npz file"));
  Write("houses.csv", "PAR1\x15");
  EXPECT_THAT(error({}), HasSubstr("this is Parquet, which psgd does not read: write it as CSV"));

  const std::vector<std::string> arrays = {"data.format=arrays", "data.target="};
  Write("x.npy", x.substr(0, x.size() - 5));
  Write("y.npy", y);
  EXPECT_THAT(error(arrays + std::vector<std::string>{"data.path=" + Path("")}),
              HasSubstr("x.npy: its shape is not that of its bytes"));
  const std::string cut = Write("cut.npz", npz.substr(0, npz.size() / 2));
  EXPECT_THAT(error(arrays + std::vector<std::string>{"data.path=" + cut}), HasSubstr("cut.npz: "));
  EXPECT_FALSE(std::filesystem::exists(Path("run")));
}

}  // namespace
}  // namespace psgd
