// Tables with numbers, labels, counts and classes to predict, through the real programs: two
// asynchronous workers with compressed updates.
#include <cmath>
#include <sstream>

#include "common/philox.h"
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

class Draws {
 public:
  float Unit() { return random_.NextUnit(); }
  float Between(float low, float high) { return low + (high - low) * Unit(); }
  // Of deviation 1, nearly normal.
  float Noise() { return (Unit() + Unit() + Unit() + Unit() - 2) * std::sqrt(3.0f); }

 private:
  RandomStream random_{{77, 0}, 1};
};

constexpr double kNoise = 12;  // of the prices

// Houses like those of California: the price is a function of income, rooms, age and shore, with
// noise. Some ages are missing.
std::string Houses(int rows) {
  const char* shores[] = {"inland", "bay", "ocean"};
  Draws draw;
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
                               Not(HasSubstr("accuracy"))));
  EXPECT_THAT(ended.out, AllOf(HasSubstr("test rmse"), Not(HasSubstr("accuracy"))));
  for (const Json& record : Metrics("houses", "progress")) EXPECT_EQ(record["accuracy"], nullptr);
  EXPECT_EQ(Metrics("houses", "evaluation").back()["measures"]["rmse"], rmse);

  const Ended eval = Ctl({"eval", "--run-dir", Path("houses"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["test_measures"]["rmse"], rmse, 1e-3 * rmse);
  const Ended report = RunProgram({"ps-sweep", "report", Path("houses"), "--markdown"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, AllOf(HasSubstr("| rmse |"), Not(HasSubstr("accuracy"))));
}

// Three labels; the second is the opposite of the first, and the third belongs to a circle.
std::string Labels(int rows) {
  Draws draw;
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
}

// Visits come at a rate that grows with the temperature.
std::string Visits(int rows) {
  Draws draw;
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

  const Ended classes = RunProgram({"ps-run", config, "--run-dir", Path("classes"), "--set",
                                    "model.loss=cross_entropy", "--set", "data.target=sunny"},
                                   std::chrono::seconds(180));
  ASSERT_EQ(classes.code, 0) << classes.err;
  EXPECT_GT(Summary("classes")["test_accuracy"], 0.97);
  EXPECT_THAT(classes.err, HasSubstr("test accuracy"));
}

// Two targets of different units, in NumPy's arrays: 5 + 2 a, and 1000 a b.
TEST_F(Tables, ArraysMayHaveSeveralTargets) {
  Draws draw;
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
  const Ended ended =
      RunProgram({"ps-run", config, "--run-dir", Path("arrays"), "--set", "data.format=arrays",
                  "--set", "data.target=", "--set", "data.path=" + arrays},
                 std::chrono::seconds(180));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json measures = Summary("arrays")["test_measures"];
  EXPECT_LT(measures["rmse_y0"], 0.2) << "the deviation is 1.15";
  EXPECT_LT(measures["rmse_y1"], 60) << "the deviation is 333";
  EXPECT_GT(measures["r2"], 0.96);
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
  EXPECT_THAT(error({"data.target_kind=class"}),
              HasSubstr("data.target_kind is class, but model.loss is squared"));
  EXPECT_THAT(error({"model.zoo=lenet5", "model.hidden="}), HasSubstr("does not fit samples of"));
  EXPECT_THAT(error({"data.augment.flip=true"}), HasSubstr("are for images"));
}

}  // namespace
}  // namespace psgd
