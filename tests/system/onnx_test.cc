// Networks from ONNX files through the real programs, and back into files.
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/onnx/import.h"
#include "tests/folders.h"
#include "tests/system/run_test.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGolden = GoldenFile("onnx/resnet.onnx");

class Onnx : public RunTest {
 protected:
  std::vector<std::string> Arguments(const std::string& run, const std::string& model) const {
    const std::string config = Write(run + ".yaml", "name: small\nmodel: {onnx: \"" + model + R"("}
data:
  format: synthetic
  synthetic: {train_samples: 1024, test_samples: 256, shape: [3, 16, 16], classes: 10, noise: 0.5}
  batch: 32
train: {epochs: 2}
optimizer: {sgd: {learning_rate: 0.05, momentum: 0.9}}
cluster: {shards: 2, workers: 2, segment: 16}
)");
    return {"ps-run", config, "--run-dir", Path(run)};
  }
  Ended Run(const std::string& run, const std::string& model,
            const std::vector<std::string>& more = {}) const {
    return RunProgram(Arguments(run, model) + more);
  }
};

TEST_F(Onnx, TrainsExportsAndTrainsOn) {
  const Ended first = Run("first", kGolden);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_GE(Summary("first")["test_accuracy"].get<double>(), 0.8);
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--run-dir", Path("first"), "--onnx", Path("trained.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const auto weights = ReadOnnxWeights(Path("trained.onnx"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->count("layer2.down.0.weight"), 1u);

  const Ended second = Run("second", Path("trained.onnx"), Sets({"train.max_steps=1"}));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_GE(Summary("second")["test_accuracy"].get<double>(), 0.7);
  const Ended eval = RunProgram({"ps-ctl", "eval", "--run-dir", Path("second"), "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
}

TEST_F(Onnx, CheckTellsWhatAFileNeeds) {
  const Ended taken = RunProgram({"ps-ctl", "onnx", "check", kGolden});
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.out, AllOf(HasSubstr("opset 13"), HasSubstr("images of 3x16x16"),
                               HasSubstr("BatchNormalization"), HasSubstr("strides 1x1, 2x2"),
                               HasSubstr("name buffers, as fixed filters, in model.frozen"),
                               HasSubstr("psgd takes all of it")));

  onnx::ModelProto model;
  std::ifstream golden(kGolden, std::ios::binary);
  ASSERT_TRUE(model.ParseFromIstream(&golden));
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() == "Relu") node.set_op_type("Det");
    if (node.op_type() == "MaxPool") node.set_op_type("NonMaxSuppression");
  }
  const std::string changed = Write("changed.onnx", model.SerializeAsString());
  const Ended refused = RunProgram({"ps-ctl", "onnx", "check", changed});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, AllOf(HasSubstr("not taken:"), HasSubstr("Det node"),
                                 HasSubstr("NonMaxSuppression node")));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("does not take"), HasSubstr("docs/engine.md")));

  const Ended json = RunProgram({"ps-ctl", "onnx", "check", changed, "--json"});
  EXPECT_EQ(json.code, 1);
  const auto record = Json::parse(json.out);
  EXPECT_FALSE(record["taken"].get<bool>());
  EXPECT_EQ(record["problems"].size(), 6u);
  EXPECT_EQ(record["problems"][0]["op"], "Det");

  const Ended missing = RunProgram({"ps-ctl", "onnx", "check", Path("none.onnx")});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.onnx"));
}

TEST_F(Onnx, StartsFromTheValuesOfTheFile) {
  const Ended ended =
      Run("run", kGolden, Sets({"train.max_steps=1", "optimizer.sgd.learning_rate=1e-30"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Ended exported = RunProgram({"ps-ctl", "export", "--run-dir", Path("run"), "--out",
                                     Path("w.safetensors"), "--onnx", Path("same.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::exists(Path("w.safetensors")));
  const auto before = ReadOnnxWeights(kGolden), after = ReadOnnxWeights(Path("same.onnx"));
  ASSERT_TRUE(before.ok() && after.ok());
  for (const auto& [name, values] : *after) {
    const std::vector<float>& file = before->at(name);
    ASSERT_EQ(values.size(), file.size()) << name;
    if (name.find("running") != std::string::npos) continue;  // follows the data
    for (size_t i = 0; i < file.size(); ++i) ASSERT_NEAR(values[i], file[i], 1e-20) << name;
  }
}

TEST_F(Onnx, ResumesFromACheckpoint) {
  Process run(Arguments("run", kGolden) + Sets({"train.epochs=500"}));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", ServerOf(run)}).code, 0);
  EXPECT_EQ(run.Wait().code, 3);
  const double before = Summary("run")["epochs"].get<double>();
  const int epochs = static_cast<int>(before) + 1;
  const Ended resumed = RunProgram(
      {"ps-run", "--resume", Path("run"), "--set", "train.epochs=" + std::to_string(epochs)});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(Summary("run")["epochs"], epochs);
}

TEST_F(Onnx, AMissingFile) {
  const Ended ended = Run("run", Path("none.onnx"));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("none.onnx"), HasSubstr("every machine")));
  EXPECT_FALSE(std::filesystem::exists(Path("run")));
}

TEST_F(Onnx, UnsupportedOps) {
  onnx::ModelProto model = testing::SmallModel();
  model.mutable_graph()->mutable_node(0)->set_op_type("Det");
  model.mutable_graph()->mutable_node(1)->set_op_type("Hardmax");
  const std::string path = Write("odd.onnx", model.SerializeAsString());
  const Ended ended =
      Run("run", path, Sets({"data.synthetic.shape=[2, 4, 4]", "data.synthetic.classes=3"}));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("odd.onnx"), HasSubstr("Det node c_node"),
                               HasSubstr("Hardmax node r_node")));
}

TEST_F(Onnx, WhatIsNotTrainedIsTold) {
  onnx::ModelProto model = testing::SmallModel();
  testing::AddWeights(model.mutable_graph(), "divisor", {3}, 2);
  testing::AddNode(model.mutable_graph(), "Div", {"y", "divisor"}, "z");
  testing::SetOutput(model.mutable_graph(), "z");
  const std::string path = Write("divided.onnx", model.SerializeAsString());
  const std::vector<std::string> sets =
      Sets({"data.synthetic.shape=[2, 4, 4]", "data.synthetic.classes=3", "train.max_steps=1"});
  const Ended ended = Run("run", path, sets);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string told =
      "not trained, but kept as the file has them (operands that are not trained, as "
      "divisors): divisor (3)\n";
  EXPECT_THAT(File("run/worker-0/worker.log"), HasSubstr(path + ": " + told));
  EXPECT_THAT(ended.err, HasSubstr("ps-run: note: " + path + ": " + told));
  const Ended dry = RunProgram(
      std::vector<std::string>{"ps-worker", "--cpu", "--dry-run", Path("run.yaml")} + sets);
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr(told));
}

TEST_F(Onnx, LearnedNumbersAreToldAndTrained) {
  const std::string model = GoldenFile("onnx/cosine.onnx");
  const Ended check = RunProgram({"ps-ctl", "onnx", "check", model});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out, HasSubstr("\n  scale              1        1  scalar\n"));
  const Ended json = RunProgram({"ps-ctl", "onnx", "check", model, "--json"});
  const auto record = Json::parse(json.out);
  EXPECT_TRUE(record["marks_buffers"].get<bool>());
  EXPECT_EQ(record["trained"].size(), 8u);
  EXPECT_EQ(record["trained"][2]["shape"], "12x3x3x3");

  const Ended ended = Run("run", model, Sets({"train.max_steps=8"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("(buffers of PyTorch): share (scalar)\n"));
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--run-dir", Path("run"), "--onnx", Path("trained.onnx")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const auto before = ReadOnnxWeights(model), after = ReadOnnxWeights(Path("trained.onnx"));
  ASSERT_TRUE(before.ok() && after.ok());
  for (const char* name : {"scale", "shift", "temperature"}) {
    EXPECT_GT(std::abs(after->at(name).at(0) - before->at(name).at(0)), 1e-4) << name;
  }
}

TEST_F(Onnx, AResumedRunNamesWeightsThatItTrainsNoMoreOrDidNotTrain) {
  const std::string model = GoldenFile("onnx/cosine.onnx");
  const Ended held = Run("run", model, Sets({"train.epochs=1", "model.frozen=[scale]"}));
  ASSERT_EQ(held.code, 0) << held.err;
  const auto resume = [&](const std::string& frozen) {
    return RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                      Sets({"train.epochs=2", "model.frozen=" + frozen}));
  };
  const Ended refused = resume("[]");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("it also trains scale; "), HasSubstr("--set 'model.frozen=[NAME]'")));
  const Ended less = resume("[scale, shift]");
  EXPECT_EQ(less.code, 2);
  EXPECT_THAT(less.err,
              AllOf(HasSubstr("it does not train shift; "), HasSubstr("go on with that version")));
  const Ended resumed = resume("[scale]");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(Onnx, WeightsThatTrainApartAreTold) {
  onnx::ModelProto model = testing::SmallModel();
  onnx::GraphProto* graph = model.mutable_graph();
  testing::AddWeights(graph, "first.weight", {3, 3});
  testing::AddNode(graph, "Identity", {"first.weight"}, "second.weight");
  testing::AddNode(graph, "MatMul", {"y", "first.weight"}, "one");
  testing::AddNode(graph, "MatMul", {"one", "second.weight"}, "two");
  testing::SetOutput(graph, "two");
  const std::string path = Write("twice.onnx", model.SerializeAsString());
  const Ended ended = Run(
      "run", path,
      Sets({"data.synthetic.shape=[2, 4, 4]", "data.synthetic.classes=3", "train.max_steps=1"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string told =
      "trained apart, though the file has their values once: second.weight (as first.weight)\n";
  EXPECT_THAT(File("run/worker-0/worker.log"), HasSubstr(path + ": " + told));
  const Ended check = RunProgram({"ps-ctl", "onnx", "check", path});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("note: " + told), HasSubstr("173 weights")));
  EXPECT_THAT(check.out, Not(HasSubstr("logits")));
}

TEST_F(Onnx, ALastSoftmaxAndAFoldedBatchNormAreTold) {
  onnx::ModelProto model = testing::SmallModel();
  onnx::GraphProto* graph = model.mutable_graph();
  graph->mutable_initializer(0)->set_name("onnx::Conv_7");
  graph->mutable_node(0)->set_input(1, "onnx::Conv_7");
  testing::AddNode(graph, "Softmax", {"y"}, "probabilities");
  testing::SetOutput(graph, "probabilities");
  const std::string path = Write("softmax.onnx", model.SerializeAsString());
  const Ended check = RunProgram({"ps-ctl", "onnx", "check", path});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("note: the last Softmax is part of the loss"),
                    HasSubstr("note: the exporter made onnx::Conv_7, as it does for evaluation")));
  const Ended ended = Run(
      "run", path,
      Sets({"data.synthetic.shape=[2, 4, 4]", "data.synthetic.classes=3", "train.max_steps=1"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ps-run: note: the exporter made onnx::Conv_7"));
}

TEST_F(Onnx, AChoiceWhoseGradientMayBeNaNIsRefused) {
  onnx::ModelProto model = testing::SmallModel();
  onnx::GraphProto* graph = model.mutable_graph();
  testing::AddWeights(graph, "limit", {}, 0);
  testing::AddNode(graph, "Greater", {"y", "limit"}, "positive");
  testing::AddNode(graph, "Log", {"y"}, "log");
  testing::AddNode(graph, "Where", {"positive", "log", "limit"}, "z");
  testing::SetOutput(graph, "z");
  const std::string path = Write("log.onnx", model.SerializeAsString());
  const Ended ended =
      Run("run", path, Sets({"data.synthetic.shape=[2, 4, 4]", "data.synthetic.classes=3"}));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("Where node z_node: leaves out values that may be "
                                         "infinite or NaN"),
                               HasSubstr("in PyTorch, too"), HasSubstr("torch.clamp")));
  EXPECT_EQ(RunProgram({"ps-ctl", "onnx", "check", path}).code, 1);
}

TEST_F(Onnx, MachinesWithDifferentFiles) {
  onnx::ModelProto model = testing::SmallModel();
  const std::string path = Write("model.onnx", model.SerializeAsString());
  const std::string config = Write("c.yaml", "model: {onnx: \"" + path + R"("}
data: {format: synthetic, synthetic: {shape: [2, 4, 4], classes: 3}, batch: 32}
cluster: {shards: 2, workers: 1}
)");
  Process server({"ps-server", "--config", config, "--port", "0", "--run-dir", Path("run")});
  const std::string address = ServerOf(server);
  model.mutable_graph()->mutable_initializer(0)->set_float_data(0, 7);
  Write("model.onnx", model.SerializeAsString());
  const Ended worker = RunProgram({"ps-worker", "--cpu", "--server", address});
  EXPECT_NE(worker.code, 0);
  EXPECT_THAT(worker.err, AllOf(HasSubstr("conv.weight"), HasSubstr("the same file")));
  server.Signal(SIGKILL);
  server.Wait();
}

}  // namespace
}  // namespace psgd
