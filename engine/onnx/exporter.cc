#include "engine/onnx/exporter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/graph/loss.h"
#include "engine/graph/model_spec.h"
#include "engine/zoo/zoo.h"

namespace psgd::onnx {
namespace {

template <typename T>
void SetRaw(std::span<const T> values, TensorProto* tensor) {
  tensor->set_raw_data(values.data(), values.size_bytes());
}

}  // namespace

// The error continues "the model NAME", as it is about the model and not a node.
void Exporter::Emit(const AdaptiveAveragePool&, const Node& node) {
  const Shape &in = model_.graph.shape(node.inputs[0]), &out = model_.graph.shape(node.outputs[0]);
  Refuse(absl::UnimplementedError(
      absl::StrCat("averages images of ", in[2], "x", in[3], " to ", out[2], "x", out[3],
                   " in windows of unequal sizes, which ONNX has no op for; its weights alone can "
                   "be written: --out FILE.safetensors")));
}

Exporter::Exporter(const ModelGraph& model, const ModelGraph& other, const ParameterValues& values)
    : model_(model), other_(other), values_(values), graph_(file_.mutable_graph()) {}

std::string Exporter::Unique(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !taken_.insert(name).second; ++i) name = absl::StrCat(wanted, "_", i);
  return name;
}

const std::string& Exporter::NameOf(TensorId tensor) {
  const auto [place, added] = names_.emplace(tensor, "");
  if (added) place->second = Unique(model_.graph.tensors[tensor].name);
  return place->second;
}

std::vector<std::string> Exporter::Ins(const Node& node) const {
  std::vector<std::string> inputs;
  for (TensorId input : node.inputs) inputs.push_back(names_.at(input));
  return inputs;
}

NodeProto* Exporter::Add(const char* op, const std::string& name,
                         const std::vector<std::string>& inputs, const std::string& output) {
  NodeProto* node = graph_->add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

std::string Exporter::Ints(const Node& node, const char* what, const Shape& values) {
  const std::string name = Between(node, what);
  AttributeProto* attribute =
      NewAttribute(Add("Constant", name, {}, name), "value", AttributeProto::TENSOR);
  TensorProto* tensor = attribute->mutable_t();
  tensor->set_data_type(TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  SetRaw(std::span<const int64_t>(values), tensor);
  return name;
}

std::string Exporter::Numbers(const Node& node, const char* what, const Shape& shape,
                              const std::vector<float>& values) {
  const std::string name = Between(node, what);
  AttributeProto* attribute =
      NewAttribute(Add("Constant", name, {}, name), "value", AttributeProto::TENSOR);
  TensorProto* tensor = attribute->mutable_t();
  tensor->set_data_type(TensorProto::FLOAT);
  tensor->mutable_dims()->Add(shape.begin(), shape.end());
  SetRaw(std::span<const float>(values), tensor);
  return name;
}

void Exporter::AddWeight(const std::string& name, const Shape& shape,
                         std::span<const float> values) {
  TensorProto* tensor = graph_->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::FLOAT);
  tensor->mutable_dims()->Add(shape.begin(), shape.end());
  SetRaw(values, tensor);
}

int Exporter::ParameterOf(TensorId tensor) const {
  const auto& parameters = model_.graph.parameters;
  const auto found = std::ranges::find(parameters, tensor, &Parameter::value);
  return found == parameters.end() ? -1 : static_cast<int>(found - parameters.begin());
}

// Writes parameters as the graph has them, except those that only recurrent layers read. These are
// written in ONNX's order at their use.
void Exporter::AddParameters() {
  std::set<TensorId> plain;
  for (const Node& node : model_.graph.nodes) {
    const bool recurrent = std::holds_alternative<Recurrent>(node.op);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!recurrent || i == 0 || ParameterOf(node.inputs[i]) < 0) plain.insert(node.inputs[i]);
    }
  }
  for (size_t i = 0; i < model_.graph.parameters.size(); ++i) {
    const TensorId tensor = model_.graph.parameters[i].value;
    if (plain.count(tensor) == 0) continue;
    AddWeight(NameOf(tensor), model_.graph.shape(tensor), values_(static_cast<int>(i)));
  }
}

int Exporter::BatchAxisOf(TensorId tensor) const {
  const Shape &one = model_.graph.shape(tensor), &two = other_.graph.shape(tensor);
  for (size_t axis = 0; axis < one.size(); ++axis) {
    if (one[axis] != two[axis]) return static_cast<int>(axis);
  }
  return -1;
}

void Exporter::Describe(TensorId tensor, int type, ValueInfoProto* info) {
  info->set_name(NameOf(tensor));
  auto* made = info->mutable_type()->mutable_tensor_type();
  made->set_elem_type(type);
  const Shape& shape = model_.graph.shape(tensor);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    auto* dim = made->mutable_shape()->add_dim();
    const bool batch = static_cast<int>(axis) == BatchAxisOf(tensor);
    if (batch && shape[axis] == model_.graph.shape(model_.input)[0]) dim->set_dim_param("batch");
    if (!batch) dim->set_dim_value(shape[axis]);
  }
}

absl::StatusOr<std::string> Exporter::Run() {
  file_.set_ir_version(8);
  file_.set_producer_name("psgd");
  file_.add_opset_import()->set_version(17);
  graph_->set_name("psgd");
  const Graph& graph = model_.graph;
  for (const Parameter& parameter : graph.parameters) NameOf(parameter.value);  // reserves names
  AddParameters();
  const bool tokens = graph.tensors[model_.input].element == Element::kInt32;
  Describe(model_.input, tokens ? TensorProto::INT64 : TensorProto::FLOAT, graph_->add_input());
  const bool reads_values = std::ranges::any_of(graph.nodes, [](const Node& node) {
    return std::holds_alternative<Embedding>(node.op) && node.inputs.size() > 2;
  });
  if (reads_values) Describe(model_.values, TensorProto::FLOAT, graph_->add_input());
  for (const Node& node : graph.nodes) {
    if (IsLoss(node.op)) {
      Describe(node.inputs[0], TensorProto::FLOAT, graph_->add_output());
      break;
    }
    std::visit([&](const auto& op) { Emit(op, node); }, node.op);
    PSGD_RETURN_IF_ERROR(refused_);
  }
  std::string bytes;
  if (file_.ByteSizeLong() > INT32_MAX || !file_.SerializeToString(&bytes)) {
    return absl::ResourceExhaustedError("has 2 GiB or more, which an ONNX file cannot hold");
  }
  return bytes;
}

}  // namespace psgd::onnx

namespace psgd {

absl::StatusOr<std::string> ExportOnnx(const ModelConfig& config, const SampleShape& shape,
                                       const ModelSpec& model, const ParameterValues& values) {
  PSGD_ASSIGN_OR_RETURN(const ModelGraph two, BuildModel(config, shape, 2, Mode::kEvaluate));
  PSGD_ASSIGN_OR_RETURN(const ModelGraph three, BuildModel(config, shape, 3, Mode::kEvaluate));
  if (!IsSameNetwork(MakeModelSpec(model.name(), two.graph), model)) {
    return absl::FailedPreconditionError(
        "the weights are of another network than the config builds now; export with the version of "
        "psgd, and the model file, that trained them");
  }
  if (two.graph.nodes.size() != three.graph.nodes.size()) {
    return absl::UnimplementedError("the network is another one for another batch");
  }
  absl::StatusOr<std::string> bytes = onnx::Exporter(two, three, values).Run();
  if (bytes.ok()) return bytes;
  return absl::Status(
      bytes.status().code(),
      absl::StrCat("cannot write ONNX: the model ", model.name(), " ", bytes.status().message()));
}

}  // namespace psgd
