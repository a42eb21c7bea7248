// What keeps a run from its beginning, and not from going on.
#include "experiment/launch/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "engine/graph/model_spec.h"
#include "engine/onnx/export.h"
#include "engine/zoo/zoo.h"
#include "experiment/config/config_yaml.h"
#include "tests/unit/data/npz_files.h"
#include "train/network_data.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Rows that begin with padding teach bag_of_tokens nothing.
TEST(Preflight, OfPaddingInFrontLetsARunGoOn) {
  ScratchFolder folder;
  WriteFile(folder.File("x.npy"), NpyOf<int32_t>("<i4", {4, 2}, {0, 1, 0, 2, 0, 1, 0, 2}));
  WriteFile(folder.File("y.npy"), NpyOf<int32_t>("<i4", {4}, {0, 1, 0, 1}));
  const auto config = ParseConfig(
      "model: {zoo: bag_of_tokens}\ndata: {format: arrays, batch: 1, "
      "table: {test_fraction: 0.5}, path: " +
          folder.path() + "}\n",
      "run.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto begins = CheckTrainable(*config, /*begins=*/true);
  EXPECT_THAT(std::string(begins.status().message()), HasSubstr("has token 1 behind a 0"));
  const auto goes_on = CheckTrainable(*config, /*begins=*/false);
  ASSERT_TRUE(goes_on.ok()) << goes_on.status();
  EXPECT_THAT(goes_on->notes, Contains(HasSubstr("has token 1 behind a 0")));
}

TEST(Preflight, OfLocalStepsFindsTooManyFragmentsAndWhatDoesNothing) {
  const auto check = [](const std::string& more) {
    const auto config = ParseConfig(
        "model: {zoo: mlp, hidden: [4]}\ndata: {format: synthetic}\n"
        "cluster: {workers: 2}\n" +
            more,
        "run.yaml");
    EXPECT_TRUE(config.ok()) << config.status();
    return CheckTrainable(*config, /*begins=*/true);
  };
  const auto many = check("local: {steps: 10, fragments: 10}\n");
  EXPECT_THAT(std::string(many.status().message()),
              AllOf(HasSubstr("only 4 slices"), HasSubstr("cluster.slice")));
  const auto nothing = check(
      "local: {steps: 10, fragments: 4}\nconsistency: {quorum: 2}\n"
      "optimizer: delayed_nesterov\n");
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_THAT(nothing->notes, Contains(HasSubstr("consistency.quorum is all 2 workers")));
  EXPECT_THAT(nothing->notes, Contains(HasSubstr("optimizer.delayed_nesterov.every to 1")));
  const auto lost = check("local: {steps: 10, delay: 2}\n");
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_THAT(lost->notes, Contains(HasSubstr("the 2 steps of local.delay are lost")));
  const auto mixed = check("local: {steps: 10, delay: 2, mix: 0.5}\n");
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_THAT(mixed->notes, Not(Contains(HasSubstr("local.delay"))));
}

TEST(Preflight, OfFactorsNotesWhereTheyCarryNothing) {
  const auto notes = [](const std::string& model, const std::string& push) {
    const auto config = ParseConfig(
        "model: " + model + "\ndata: {format: synthetic, batch: 16}\ncompression: " + push + "\n",
        "run.yaml");
    EXPECT_TRUE(config.ok()) << config.status();
    const auto checked = CheckTrainable(*config, /*begins=*/true);
    EXPECT_TRUE(checked.ok()) << checked.status();
    return checked.ok() ? checked->notes : std::vector<std::string>();
  };
  const auto note = Contains(HasSubstr("codec factors carries nothing: no dense layer"));
  EXPECT_THAT(notes("{zoo: mlp, hidden: [4]}", "factors"), note);
  EXPECT_THAT(notes("{zoo: mlp, hidden: [512]}", "factors"), Not(note));
  EXPECT_THAT(notes("{zoo: mlp, hidden: [4]}", "none"), Not(note));
}

// Writes a network as ONNX, as another program's export of it.
void WriteNetwork(const std::string& path, const char* zoo, const SampleShape& shape) {
  ModelConfig config;
  config.set_zoo(zoo);
  if (zoo == std::string("mlp")) config.add_hidden(4);
  const auto model = BuildModel(config, shape, 2, Mode::kEvaluate);
  ASSERT_TRUE(model.ok()) << model.status();
  ModelSpec spec = MakeModelSpec(zoo, model->graph);
  spec.mutable_preparation()->mutable_shape()->set_width(1);
  std::vector<float> zeros(1'000'000);
  const auto bytes = ExportOnnx(config, shape, spec, [&](int i) {
    const auto& dims = spec.parameters(i).shape();
    return std::span<const float>(zeros).first(
        static_cast<size_t>(ElementCount({dims.begin(), dims.end()})));
  });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  WriteFile(path, *bytes);
}

class PreflightOfOnnx : public testing::Test {
 protected:
  absl::StatusOr<TrainingSize> Check(const std::string& more = "") const {
    const auto config = ParseConfig("model: {onnx: " + folder_.File("n.onnx") +
                                        "}\ndata: {format: arrays, batch: 2, table: "
                                        "{test_fraction: 0.5}, path: " +
                                        folder_.path() + more,
                                    "run.yaml");
    EXPECT_TRUE(config.ok()) << config.status();
    return CheckTrainable(*config, /*begins=*/true);
  }
  void WriteArrays(const std::string& x) const {
    WriteFile(folder_.File("x.npy"), x);
    WriteFile(folder_.File("y.npy"), NpyOf<int32_t>("<i4", {4}, {0, 1, 0, 1}));
  }

  ScratchFolder folder_;
};

TEST_F(PreflightOfOnnx, StandardizedNumbersAreNoted) {
  WriteNetwork(folder_.File("n.onnx"), "mlp", {1, 1, 3, 2});
  WriteArrays(NpyOf("<f4", {4, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}));
  const auto note =
      Contains(HasSubstr("was trained on numbers as they are, set data.standardize: "
                         "false"));
  const auto standardized = Check("}\ncompression: {push: {topk: {density: 1}}}\n");
  ASSERT_TRUE(standardized.ok()) << standardized.status();
  EXPECT_THAT(standardized->notes, note);
  EXPECT_THAT(standardized->notes, Contains(HasSubstr("compression.push.topk.density is 1")));
  const auto raw = Check(", standardize: false}\n");
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_THAT(raw->notes, Not(note));
}

TEST_F(PreflightOfOnnx, TokensAndAxesThatDoNotFitAreNamed) {
  WriteNetwork(folder_.File("n.onnx"), "bag_of_tokens",
               {.classes = 2, .length = 2, .source = 2, .vocabulary = 5});
  WriteArrays(NpyOf<int32_t>("<i4", {4, 2}, {1, 2, 3, 4, 1, 9, 2, 1}));
  EXPECT_THAT(
      std::string(Check("}\n").status().message()),
      AllOf(HasSubstr("those of the data go up to 9"),
            HasSubstr("or correct the data: in " + folder_.path() + " x[2] has the token 9")));
  WriteNetwork(folder_.File("n.onnx"), "lenet5", {1, 28, 28, 2});
  WriteArrays(NpyOf("<f4", {4, 28, 28, 1}, std::vector<float>(size_t{4} * 28 * 28)));
  EXPECT_THAT(std::string(Check("}\n").status().message()),
              HasSubstr("make them the second axis: x.transpose(0, 3, 1, 2)"));
}

TEST_F(PreflightOfOnnx, ARunGoesOnWithItsDataAndItsFile) {
  WriteNetwork(folder_.File("n.onnx"), "mlp", {1, 1, 3, 2});
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6};
  WriteArrays(NpyOf("<f4", {4, 3}, numbers));
  const auto config = ParseConfig("model: {onnx: " + folder_.File("n.onnx") +
                                      "}\ndata: {format: arrays, batch: 2, table: {test_fraction: "
                                      "0.5}, path: " +
                                      folder_.path() + "}\n",
                                  "run.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  CheckpointManifest checkpoint;
  checkpoint.set_id(1);
  *checkpoint.mutable_config() = *config;
  const auto go_on = [&](const Config& now) {
    return std::string(CheckTrainable(now, /*begins=*/false, &checkpoint).status().message());
  };
  const auto begun = CheckTrainable(*config, /*begins=*/true);
  ASSERT_TRUE(begun.ok()) << begun.status();
  *checkpoint.mutable_model() = *begun->model;
  checkpoint.set_train_samples(2);
  EXPECT_EQ(go_on(*config), "") << "an earlier version, which kept no preparation";
  const auto data = OpenDataOf(*config);
  ASSERT_TRUE(data.ok()) << data.status();
  *checkpoint.mutable_model()->mutable_preparation() = data->preparation;
  EXPECT_EQ(go_on(*config), "");

  Config larger = *config;
  larger.mutable_data()->mutable_table()->set_test_fraction(0.25);
  EXPECT_THAT(go_on(larger),
              AllOf(HasSubstr("taken with 2 samples to train on, and the data have 3 now"),
                    HasSubstr("data.table.test_fraction is 0.25, and was 0.5"),
                    HasSubstr("; keep the data it was taken with, or begin a new run")));
  std::vector<float> others = numbers;
  others[0] = 5;
  WriteArrays(NpyOf("<f4", {4, 3}, others));
  EXPECT_THAT(go_on(*config), HasSubstr("was taken with other data: its data have other scales"));
  WriteArrays(NpyOf("<f4", {4, 3}, numbers));
  checkpoint.mutable_model()
      ->mutable_parameters(0)
      ->mutable_initializer()
      ->mutable_given()
      ->set_checksum(1);
  EXPECT_THAT(
      go_on(*config),
      AllOf(HasSubstr(folder_.File("n.onnx") + " makes another model now than that of checkpoint "),
            HasSubstr(" has other values in the model's file"),
            HasSubstr("; the run goes on from a checkpoint: keep the file")));
}

}  // namespace
}  // namespace psgd
