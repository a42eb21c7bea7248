#include "engine/zoo/zoo.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/hidden_matrices.h"
#include "engine/graph/model_spec.h"

namespace psgd {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr SampleShape kFashion = {1, 28, 28, 10};
constexpr SampleShape kCifar = {3, 32, 32, 10};
constexpr SampleShape kImageNet = {3, 224, 224, 1000};

// Numbers of weights of published networks, from papers or torchvision (without auxiliary
// classifiers).
struct Published {
  const char* name;
  SampleShape shape;
  int64_t weights;
};
constexpr Published kPublished[] = {
    {"alexnet", kImageNet, 61100840},
    {"vgg16", kImageNet, 138357544},
    {"vgg19", kImageNet, 143667240},
    {"googlenet", kImageNet, 6624904},
    {"inception_v3", {3, 299, 299, 1000}, 23834568},
    {"squeezenet", kImageNet, 1235496},
    {"resnet18", kImageNet, 11689512},
    {"resnet34", kImageNet, 21797672},
    {"resnet50", kImageNet, 25557032},
    {"resnet101", kImageNet, 44549160},
    {"resnet20", kCifar, 269722},
    {"resnet56", kCifar, 853018},
    {"resnet110", kCifar, 1727962},
    {"unet", {1, 512, 512, 2}, 31030658},
};

// The shape of samples that the model takes.
SampleShape ShapeFor(const std::string& name) {
  for (const Published& published : kPublished) {
    if (name == published.name) return published.shape;
  }
  if (name == "ncf" || name == "logistic_regression") {
    return {.classes = 2, .entries = 2, .vocabulary = 50};
  }
  if (name == "linear_regression") {
    return {.classes = 3, .entries = 2, .vocabulary = 50, .targets = 3};
  }
  if (name == "bag_of_tokens" || name == "transformer_encoder") {
    return {.classes = 3, .length = 6, .source = 6, .vocabulary = 9};
  }
  if (name == "transformer") return {.classes = 9, .length = 11, .source = 5, .vocabulary = 9};
  return kFashion;
}

ModelConfig Zoo(const std::string& name) {
  ModelConfig config;
  config.set_zoo(name);
  if (name == "linear_regression") config.set_loss(ModelConfig::SQUARED);
  return config;
}

// The number of trained weights.
int64_t Count(const ModelSpec& spec) {
  int64_t count = 0;
  for (const ParameterSpec& parameter : spec.parameters()) {
    if (parameter.role() != ParameterSpec::TRAINED) continue;
    int64_t elements = 1;
    for (int64_t size : parameter.shape()) elements *= size;
    count += elements;
  }
  return count;
}

std::vector<std::string> Names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters()) names.push_back(parameter.name());
  return names;
}

ModelSpec Spec(const ModelConfig& config, const SampleShape& shape = kFashion) {
  const auto model = BuildModel(config, shape, 2, Mode::kTrain);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? MakeModelSpec(config.zoo(), model->graph) : ModelSpec();
}

std::string ErrorOf(const ModelConfig& config, const SampleShape& shape) {
  const absl::Status status = BuildModel(config, shape, 2, Mode::kTrain).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ZooTest, ALabelThatNoDataHaveCannotBeIgnored) {
  ModelConfig config = Zoo("lenet5");
  config.set_ignored_label(9);
  EXPECT_TRUE(BuildModel(config, kFashion, 2, Mode::kTrain).ok());
  config.set_ignored_label(10);
  EXPECT_THAT(ErrorOf(config, kFashion),
              HasSubstr("model.ignored_label is 10, but the labels of the data are from 0 to 9"));
}

TEST(ZooTest, Lenet5HasTheWeightsOfCaffes) {
  const ModelSpec spec = Spec(Zoo("lenet5"));
  EXPECT_EQ(Count(spec), 431080);
  EXPECT_THAT(Names(spec), ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                       "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(spec.parameters(2).shape(), ElementsAre(50, 20, 5, 5));
  EXPECT_THAT(spec.parameters(4).shape(), ElementsAre(500, 800));
  EXPECT_TRUE(spec.parameters(4).decay());
  EXPECT_FALSE(spec.parameters(5).decay());
}

TEST(ZooTest, HiddenMatricesAreNoTablesAndNotTheClasses) {
  const auto hidden = [](const ModelConfig& config, const SampleShape& shape) {
    const auto model = BuildModel(config, shape, 2, Mode::kTrain);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::vector<bool> matrices = HiddenMatrices(model->graph);
    const std::vector<std::string> all = Names(MakeModelSpec(config.zoo(), model->graph));
    std::vector<std::string> names;
    for (size_t i = 0; i < all.size(); ++i) {
      if (matrices[i]) names.push_back(all[i]);
    }
    return names;
  };
  EXPECT_THAT(hidden(Zoo("lenet5"), kFashion),
              ElementsAre("conv1.weight", "conv2.weight", "fc1.weight"));
  ModelConfig gpt = Zoo("gpt");
  gpt.set_layers(1);
  gpt.set_width(8);
  gpt.set_heads(2);
  EXPECT_THAT(
      hidden(gpt, {.classes = 9, .length = 6, .vocabulary = 9}),
      ElementsAre("h.0.attn.q_proj.weight", "h.0.attn.k_proj.weight", "h.0.attn.v_proj.weight",
                  "h.0.attn.out_proj.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight"));
  // Neither transposed convolutions nor the last one, whose filters are the classes.
  const auto unet = hidden(Zoo("unet"), ShapeFor("unet"));
  EXPECT_THAT(unet, Contains(HasSubstr("down1")));
  EXPECT_THAT(unet, Not(Contains("up1.up.weight")));
  EXPECT_THAT(unet, Not(Contains("out.weight")));
}

TEST(ZooTest, CnnStaysBelow120000Weights) {
  const ModelSpec spec = Spec(Zoo("cnn"));
  EXPECT_EQ(Count(spec), 98666);
  EXPECT_EQ(Names(spec)[1], "bn1.weight");
  EXPECT_EQ(Names(spec)[3], "bn1.running_mean");
  EXPECT_EQ(spec.parameters(3).role(), ParameterSpec::STATISTIC);
  EXPECT_EQ(spec.parameters(4).initializer().constant().value(), 1);
  EXPECT_FALSE(spec.parameters(1).decay());
}

TEST(ZooTest, MlpTakesItsWidthsFromTheConfig) {
  ModelConfig config = Zoo("mlp");
  EXPECT_EQ(Count(Spec(config)), 784 * 128 + 128 + 128 * 10 + 10);
  config.add_hidden(30);
  config.add_hidden(20);
  const ModelSpec spec = Spec(config, {3, 2, 2, 5});
  EXPECT_EQ(Count(spec), 12 * 30 + 30 + 30 * 20 + 20 + 20 * 5 + 5);
  EXPECT_EQ(Names(spec).back(), "fc3.bias");
  EXPECT_FLOAT_EQ(spec.parameters(0).initializer().uniform().high(), 1 / std::sqrt(12.0f));
}

TEST(ZooTest, PublishedNetworksHaveTheirPublishedWeights) {
  for (const Published& published : kPublished) {
    EXPECT_EQ(Count(Spec(Zoo(published.name), published.shape)), published.weights)
        << published.name;
  }
}

// Names and shapes of torchvision's layers, so that exported weights load there.
TEST(ZooTest, ParametersAreNamedAsInTorchvision) {
  const auto shape_of = [](const char* model, const std::string& parameter) {
    const ModelSpec spec = Spec(Zoo(model), ShapeFor(model));
    for (const ParameterSpec& p : spec.parameters()) {
      if (p.name() == parameter) return std::vector<int64_t>(p.shape().begin(), p.shape().end());
    }
    ADD_FAILURE() << model << " has no " << parameter;
    return std::vector<int64_t>();
  };
  EXPECT_THAT(shape_of("alexnet", "features.10.weight"), ElementsAre(256, 256, 3, 3));
  EXPECT_THAT(shape_of("alexnet", "classifier.1.weight"), ElementsAre(4096, 9216));
  EXPECT_THAT(shape_of("vgg16", "features.28.bias"), ElementsAre(512));
  EXPECT_THAT(shape_of("vgg19", "features.34.weight"), ElementsAre(512, 512, 3, 3));
  EXPECT_THAT(shape_of("vgg19", "classifier.6.weight"), ElementsAre(1000, 4096));
  EXPECT_THAT(shape_of("googlenet", "inception4e.branch2.1.conv.weight"),
              ElementsAre(320, 160, 3, 3));
  EXPECT_THAT(shape_of("googlenet", "inception5b.branch4.1.bn.running_var"), ElementsAre(128));
  EXPECT_THAT(shape_of("inception_v3", "Mixed_6b.branch7x7_2.conv.weight"),
              ElementsAre(128, 128, 1, 7));
  EXPECT_THAT(shape_of("inception_v3", "Mixed_7c.branch3x3dbl_3b.conv.weight"),
              ElementsAre(384, 384, 3, 1));
  EXPECT_THAT(shape_of("squeezenet", "features.12.expand3x3.weight"), ElementsAre(256, 64, 3, 3));
  EXPECT_THAT(shape_of("squeezenet", "classifier.1.weight"), ElementsAre(1000, 512, 1, 1));
  EXPECT_THAT(shape_of("resnet18", "layer2.0.downsample.0.weight"), ElementsAre(128, 64, 1, 1));
  EXPECT_THAT(shape_of("resnet34", "layer3.5.bn2.running_mean"), ElementsAre(256));
  EXPECT_THAT(shape_of("resnet50", "layer1.0.downsample.1.weight"), ElementsAre(256));
  EXPECT_THAT(shape_of("resnet101", "layer3.22.conv3.weight"), ElementsAre(1024, 256, 1, 1));
}

TEST(ZooTest, NetworksForLargeImagesTakeSmallOnesWhereTheirPoolsAllow) {
  for (const char* name : {"vgg16", "googlenet", "squeezenet", "resnet18", "resnet50", "unet"}) {
    Spec(Zoo(name), kCifar);
  }
  Spec(Zoo("googlenet"), kFashion);
  Spec(Zoo("alexnet"), {3, 63, 63, 10});
  EXPECT_THAT(ErrorOf(Zoo("alexnet"), {3, 62, 62, 10}),
              AllOf(HasSubstr("features.12"), HasSubstr("does not fit a 2x2 image")));
  Spec(Zoo("inception_v3"), {3, 75, 75, 10});
  EXPECT_THAT(ErrorOf(Zoo("inception_v3"), {3, 74, 74, 10}), HasSubstr("Mixed_7a"));
  EXPECT_THAT(ErrorOf(Zoo("unet"), kFashion),
              AllOf(HasSubstr("up4.concat"), HasSubstr("cannot concatenate")));
}

TEST(ZooTest, DropoutIsTheConfigs) {
  const std::pair<const char*, int> models[] = {{"alexnet", 2},      {"vgg16", 2},
                                                {"googlenet", 1},    {"squeezenet", 1},
                                                {"inception_v3", 1}, {"unet", 1}};
  for (const auto& [name, dropouts] : models) {
    for (float rate : {0.0f, 0.25f}) {
      ModelConfig config = Zoo(name);
      config.set_dropout(rate);
      const auto model = BuildModel(config, ShapeFor(name), 2, Mode::kTrain);
      ASSERT_TRUE(model.ok()) << model.status();
      int found = 0;
      for (const Node& node : model->graph.nodes) {
        const auto* op = std::get_if<Dropout>(&node.op);
        if (op != nullptr && op->rate == rate) ++found;
      }
      EXPECT_EQ(found, rate == 0 ? 0 : dropouts) << name;
    }
  }
}

TEST(ZooTest, HeInitialHasTheDeviationOfTheFanOut) {
  const ModelSpec spec = Spec(Zoo("vgg16"), kCifar);
  ASSERT_EQ(spec.parameters(0).name(), "features.0.weight");
  EXPECT_FLOAT_EQ(spec.parameters(0).initializer().normal().stddev(), std::sqrt(2.0f / (64 * 9)));
  EXPECT_EQ(spec.parameters(1).initializer().constant().value(), 0);
  EXPECT_TRUE(spec.parameters(0).decay());
  EXPECT_FALSE(spec.parameters(1).decay());
}

SampleShape Sparse(int entries, int vocabulary, int classes) {
  return {.classes = classes, .entries = entries, .vocabulary = vocabulary};
}

TEST(ZooTest, LogisticRegressionHasAWeightAFeature) {
  const ModelSpec binary = Spec(Zoo("logistic_regression"), Sparse(14, 123, 2));
  EXPECT_THAT(Names(binary), ElementsAre("linear.weight", "linear.bias"));
  EXPECT_EQ(Count(binary), 123 + 1);
  EXPECT_TRUE(binary.parameters(0).sparse());
  EXPECT_TRUE(binary.parameters(1).decay());
  EXPECT_EQ(Count(Spec(Zoo("logistic_regression"), Sparse(14, 123, 7))), 123 * 7 + 7);
  EXPECT_THAT(ErrorOf(Zoo("logistic_regression"), kFashion),
              HasSubstr("takes sparse vectors, but samples are images"));
  EXPECT_THAT(ErrorOf(Zoo("lenet5"), Sparse(14, 123, 2)), HasSubstr("samples are sparse vectors"));
}

TEST(ZooTest, LinearRegressionHasAWeightAFeatureAndTarget) {
  const SampleShape two = {.classes = 2, .entries = 14, .vocabulary = 123, .targets = 2};
  EXPECT_EQ(Count(Spec(Zoo("linear_regression"), two)), 2 * (123 + 1));
  EXPECT_THAT(ErrorOf(Zoo("linear_regression"), Sparse(14, 123, 2)),
              HasSubstr("use logistic_regression"));
  ModelConfig classes = Zoo("logistic_regression");
  classes.set_loss(ModelConfig::SQUARED);
  EXPECT_THAT(ErrorOf(classes, two), HasSubstr("use linear_regression"));
}

SampleShape Labelled(int length, int vocabulary, int classes) {
  return {.classes = classes, .length = length, .source = length, .vocabulary = vocabulary};
}

TEST(ZooTest, NetworksOfLabelledTexts) {
  ModelConfig bag = Zoo("bag_of_tokens");
  bag.set_width(32);
  const ModelSpec spec = Spec(bag, Labelled(9, 100, 4));
  EXPECT_THAT(Names(spec), ElementsAre("embedding.weight", "fc.weight", "fc.bias"));
  EXPECT_EQ(Count(spec), 100 * 32 + 4 * 32 + 4);
  EXPECT_TRUE(spec.parameters(0).sparse());
  ModelConfig encoder = Zoo("transformer_encoder");
  encoder.set_width(32);
  encoder.set_layers(2);
  const int64_t layer = 4 * (32 * 32 + 32) + 2 * 4 * 32 * 32 + 5 * 32 + 2 * 2 * 32;
  EXPECT_EQ(Count(Spec(encoder, Labelled(9, 100, 4))), 100 * 32 + 2 * layer + 4 * 32 + 4);
  EXPECT_THAT(ErrorOf(bag, {.classes = 9, .length = 8, .vocabulary = 9}),
              HasSubstr("takes texts with one label, but samples are sequences of tokens"));
  EXPECT_THAT(ErrorOf(Zoo("gpt"), Labelled(9, 100, 4)),
              HasSubstr("takes sequences of tokens, but samples are texts with one label"));
}

// NeuMF of the paper: factors of `width`, and layers of 64, 32, 16. The first layer's input is the
// factors of user and item.
TEST(ZooTest, NcfHasFactorsOfEachUserAndItemTwice) {
  ModelConfig config = Zoo("ncf");
  config.set_width(8);
  const ModelSpec spec = Spec(config, Sparse(2, 100, 2));
  EXPECT_EQ(Count(spec), 100 * 8 + 100 * 32 + (64 + 1) * 32 + (32 + 1) * 16 + (8 + 16 + 1));
  EXPECT_TRUE(spec.parameters(0).sparse());
  EXPECT_THAT(ErrorOf(config, Sparse(3, 100, 2)), HasSubstr("pairs of a user and an item"));
}

SampleShape Text(int length, int vocabulary) {
  return {.classes = vocabulary, .length = length, .vocabulary = vocabulary};
}

TEST(ZooTest, GptHasTheWeightsOfGpt2) {
  ModelConfig config = Zoo("gpt");
  config.set_layers(12);
  config.set_width(768);
  config.set_heads(12);
  const ModelSpec spec = Spec(config, Text(1024, 50257));
  EXPECT_EQ(Count(spec), 124439808);
  const std::vector<std::string> names = Names(spec);
  EXPECT_EQ(names[0], "wte.weight");
  EXPECT_EQ(names[1], "wpe.weight");
  EXPECT_THAT(std::vector<std::string>(names.begin() + 2, names.begin() + 18),
              ElementsAre("h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.q_proj.weight",
                          "h.0.attn.q_proj.bias", "h.0.attn.k_proj.weight", "h.0.attn.k_proj.bias",
                          "h.0.attn.v_proj.weight", "h.0.attn.v_proj.bias",
                          "h.0.attn.out_proj.weight", "h.0.attn.out_proj.bias", "h.0.ln_2.weight",
                          "h.0.ln_2.bias", "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias",
                          "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias"));
  EXPECT_EQ(names.back(), "ln_f.bias");
  EXPECT_FLOAT_EQ(spec.parameters(4).initializer().normal().stddev(), 0.02f);
  EXPECT_TRUE(spec.parameters(4).decay());
  EXPECT_FALSE(spec.parameters(5).decay());
}

SampleShape Pair(int source, int target, int vocabulary) {
  return {
      .classes = vocabulary, .length = source + target, .source = source, .vocabulary = vocabulary};
}

// The base model of the paper, which says 65 million weights for "about 37000" tokens. With w =
// 512, inner layers of 4 w and PyTorch's biases, there is a table of 37000 w. An encoder layer has
// attention of 4 (w^2 + w), dense layers of 8 w^2 + 5 w and two norms of 2 w. A decoder layer has
// one more attention and norm. Positions have no weights, and the logits use the table.
TEST(ZooTest, TransformerHasTheWeightsOfThePapersBaseModel) {
  ModelConfig config = Zoo("transformer");
  config.set_layers(6);
  config.set_width(512);
  config.set_heads(8);
  const ModelSpec spec = Spec(config, Pair(25, 20, 37000));
  constexpr int64_t w = 512, kAttention = 4 * (w * w + w), kDense = 8 * w * w + 5 * w;
  constexpr int64_t kEncoder = kAttention + kDense + 2 * 2 * w;
  constexpr int64_t kDecoder = 2 * kAttention + kDense + 3 * 2 * w;
  static_assert(37000 * w + 6 * (kEncoder + kDecoder) == 63082496);
  EXPECT_EQ(Count(spec), 63082496);
  EXPECT_NEAR(static_cast<double>(Count(spec)), 65e6, 0.03 * 65e6);

  const std::vector<std::string> names = Names(spec);
  EXPECT_EQ(names[0], "embedding.weight");
  EXPECT_EQ(names[1], "encoder.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(std::vector<std::string>(names.begin() + 9, names.begin() + 17),
              ElementsAre("encoder.layers.0.norm1.weight", "encoder.layers.0.norm1.bias",
                          "encoder.layers.0.linear1.weight", "encoder.layers.0.linear1.bias",
                          "encoder.layers.0.linear2.weight", "encoder.layers.0.linear2.bias",
                          "encoder.layers.0.norm2.weight", "encoder.layers.0.norm2.bias"));
  EXPECT_THAT(names, Contains("decoder.layers.5.multihead_attn.out_proj.bias"));
  EXPECT_EQ(names.back(), "decoder.layers.5.norm3.bias");
  EXPECT_EQ(names.size(), 1u + 6 * 16 + 6 * 26);
}

// PyTorch's word_language_model with the sizes of Zaremba et al.'s medium model.
TEST(ZooTest, LstmLmHasTheWeightsOfPytorchs) {
  ModelConfig config = Zoo("lstm_lm");
  config.set_width(650);
  const ModelSpec spec = Spec(config, Text(35, 10000));
  EXPECT_EQ(Count(spec), 19780400);
  EXPECT_THAT(Names(spec), ElementsAre("encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0",
                                       "rnn.bias_ih_l0", "rnn.bias_hh_l0", "rnn.weight_ih_l1",
                                       "rnn.weight_hh_l1", "rnn.bias_ih_l1", "rnn.bias_hh_l1",
                                       "decoder.weight", "decoder.bias"));
  EXPECT_FLOAT_EQ(spec.parameters(1).initializer().uniform().high(), 1 / std::sqrt(650.0f));
}

TEST(ZooTest, ModelsSayWhichSamplesTheyTake) {
  EXPECT_THAT(ErrorOf(Zoo("gpt"), kFashion), HasSubstr("takes sequences of tokens"));
  EXPECT_THAT(ErrorOf(Zoo("lenet5"), Text(64, 256)),
              AllOf(HasSubstr("64 tokens"), HasSubstr("takes images")));
  EXPECT_THAT(ErrorOf(Zoo("gpt"), Pair(8, 9, 256)),
              AllOf(HasSubstr("8 and 9 tokens"), HasSubstr("samples are pairs of sequences")));
  EXPECT_THAT(ErrorOf(Zoo("transformer"), Text(64, 256)), HasSubstr("takes pairs of sequences"));
  EXPECT_THAT(ErrorOf(Zoo("transformer"), kFashion), HasSubstr("takes pairs of sequences"));
  ModelConfig uneven = Zoo("gpt");
  uneven.set_heads(3);
  EXPECT_THAT(ErrorOf(uneven, Text(64, 256)), HasSubstr("3 heads do not share 2x64x128 evenly"));
}

TEST(ZooTest, EvaluationHasTheSameParametersAsTraining) {
  for (const std::string& name : ZooNames()) {
    ModelConfig config = Zoo(name);
    const SampleShape shape =
        BuildModel(config, ShapeFor(name), 2, Mode::kTrain).ok() ? ShapeFor(name) : Text(16, 32);
    config.set_dropout(0.5);
    if (!BuildModel(config, shape, 2, Mode::kTrain).ok()) config.clear_dropout();  // no such key
    const auto train = BuildModel(config, shape, 2, Mode::kTrain);
    const auto evaluate = BuildModel(config, shape, 2, Mode::kEvaluate);
    ASSERT_TRUE(train.ok() && evaluate.ok()) << name << ": " << train.status();
    EXPECT_EQ(MakeModelSpec(name, train->graph).SerializeAsString(),
              MakeModelSpec(name, evaluate->graph).SerializeAsString());
  }
}

TEST(ZooTest, KeysThatWouldDoNothingAreErrors) {
  ModelConfig config = Zoo("lenet5");
  config.set_dropout(0.5);
  EXPECT_THAT(ErrorOf(config, kFashion), HasSubstr("model.dropout does nothing in lenet5"));
  config = Zoo("cnn");
  config.add_hidden(64);
  EXPECT_THAT(ErrorOf(config, kFashion), HasSubstr("model.hidden does nothing in cnn"));
  config = Zoo("lstm_lm");
  config.set_heads(2);
  EXPECT_THAT(ErrorOf(config, Text(16, 32)), HasSubstr("model.heads does nothing in lstm_lm"));
}

TEST(ZooTest, AModelThatDoesNotFitNamesTheLayer) {
  EXPECT_THAT(ErrorOf(Zoo("lenet5"), {1, 4, 4, 10}),
              AllOf(HasSubstr("lenet5"), HasSubstr("1x4x4"), HasSubstr("conv1"),
                    HasSubstr("a 5x5 kernel does not fit a 4x4 image")));
  EXPECT_THAT(ErrorOf(Zoo("lenet5"), {1, 10, 10, 10}), HasSubstr("conv2"));
  EXPECT_THAT(ErrorOf(Zoo("cnn"), {1, 3, 3, 10}), HasSubstr("pool2"));
  EXPECT_THAT(ErrorOf(Zoo("mlp"), {0, 28, 28, 10}), HasSubstr("empty"));
  ModelConfig huge = Zoo("mlp");
  huge.add_hidden(int64_t{1} << 62);
  EXPECT_THAT(ErrorOf(huge, kFashion), AllOf(HasSubstr("fc1"), HasSubstr("too large")));
}

TEST(ZooTest, AnUnknownNameGetsASuggestion) {
  EXPECT_THAT(ErrorOf(Zoo("lenet"), kFashion), HasSubstr("did you mean \"lenet5\"?"));
  EXPECT_THAT(ErrorOf(Zoo("bert"), kFashion), HasSubstr("mlp, lenet5, cnn"));
  EXPECT_THAT(ErrorOf(ModelConfig(), kFashion), HasSubstr("model.zoo"));
}

}  // namespace
}  // namespace psgd
