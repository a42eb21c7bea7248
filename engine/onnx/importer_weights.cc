// Chooses which values of a file are trained.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/glob.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/importer.h"

namespace psgd::onnx {
namespace {

// Reasons why values are held.
constexpr char kNumbers[] = "numbers without an axis";
constexpr char kOthers[] = "operands that are not trained, as divisors";
constexpr char kUnmarked[] =
    "numbers without an axis, which the file does not mark as parameters or buffers; to train "
    "parameters, export with dynamo=True, optimize=False";
constexpr char kUnreached[] = "no gradient of the loss reaches them";
constexpr char kLost[] =
    "exponents, bounds of Clip, and what goes through Trilu, CumSum, ReduceProd or ScatterND, "
    "which "
    "psgd does not train";

bool IsReal(int64_t type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16;
}

bool IsFrozen(const ModelConfig& config, const std::string& name) {
  return std::any_of(config.frozen().begin(), config.frozen().end(),
                     [&](const std::string& glob) { return GlobMatches(glob, name); });
}

// Whether the op chooses element by element. Its operands of one element are bounds and values to
// fill in.
bool Chooses(const NodeProto& node) {
  return node.op_type() == "Where" || node.op_type() == "Max" || node.op_type() == "Min";
}

// Inputs that are trained if they come from the file.
std::vector<int> WeightInputs(const NodeProto& node) {
  const std::string& op = node.op_type();
  if (op == "Conv" || op == "ConvTranspose" || op.ends_with("Normalization")) return {1, 2};
  if (op == "PRelu") return {1};
  if (op == "LSTM" || op == "GRU" || op == "RNN") return {1, 2, 3};
  if (op == "Gemm") return {0, 1, 2};
  if (op == "MatMul" || op == "Einsum" || op == "Add" || op == "Sub" || op == "Mul") return {0, 1};
  if (op == "Gather" || op == "EmbeddingBag" || op == "Div") return {0};
  if (op == "Where") return {1, 2};
  if (op != "Sum" && !Chooses(node)) return {};
  std::vector<int> all;
  for (int i = 0; i < node.input_size(); ++i) all.push_back(i);
  return all;
}

// Inputs whose weights the op passes on to its output.
std::vector<std::string> PassedOn(const NodeProto& node) {
  static const std::set<std::string>* const kMoving = new std::set<std::string>{
      "Identity", "Transpose", "Reshape",  "Squeeze", "Unsqueeze",  "Flatten",  "Slice",   "Split",
      "Expand",   "Pad",       "Neg",      "Tile",    "Exp",        "Softplus", "Sigmoid", "Tanh",
      "Clip",     "Softmax",   "CastLike", "Pow",     "Reciprocal", "Sqrt",     "Abs"};
  const std::string& op = node.op_type();
  if (op == "Concat") return {node.input().begin(), node.input().end()};
  const bool passes =
      kMoving->count(op) > 0 || (op == "Cast" && IsReal(IntAttribute(node, "to", 0)));
  if (!passes || node.input_size() == 0) return {};
  return {node.input(0)};
}

// Inputs that get a gradient if an output of the node gets one.
std::vector<std::string> GradientInputs(const NodeProto& node) {
  static const std::set<std::string>* const kSteps = new std::set<std::string>{
      "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not", "Sign"};
  static const std::set<std::string>* const kOfFirst = new std::set<std::string>{
      "CastLike", "Clip", "Dropout", "Gather", "Pad", "Pow", "Resize", "Upsample"};
  const std::string& op = node.op_type();
  const auto first = node.input().begin();
  const int size = node.input_size();
  if (Table().count(op) == 0 || kSteps->count(op) > 0) return {};
  if (op == "Cast" && !IsReal(IntAttribute(node, "to", 0))) return {};
  if (op == "Where") return {first + std::min(size, 1), node.input().end()};
  const bool recurrent = op == "LSTM" || op == "GRU" || op == "RNN";  // from zeros
  return {first, first + std::min(size, kOfFirst->count(op) > 0 ? 1 : recurrent ? 4 : size)};
}

// Inputs that get a gradient in PyTorch alone.
std::vector<std::string> LostInputs(const NodeProto& node) {
  static const auto* const kLostInputs = new std::map<std::string, std::vector<int>>{
      {"Pow", {1}},   {"Clip", {1, 2}},    {"CumSum", {0}},
      {"Trilu", {0}}, {"ReduceProd", {0}}, {"ScatterND", {0, 2}}};
  std::vector<std::string> names;
  const auto found = kLostInputs->find(node.op_type());
  if (found == kLostInputs->end()) return names;
  for (const int input : found->second) {
    if (input < node.input_size()) names.push_back(node.input(input));
  }
  return names;
}

// The inputs of all nodes, except resizing nodes, which read sizes of images.
std::set<std::string> Operands(const GraphProto& graph) {
  std::set<std::string> names;
  for (const NodeProto& node : graph.node()) {
    if (node.op_type() == "Resize" || node.op_type() == "Upsample") continue;
    names.insert(node.input().begin(), node.input().end());
  }
  return names;
}

// Values that serve only a sine or cosine which does not depend on the input, as angles of
// positions.
std::set<std::string> Angles(const OnnxFile& file) {
  const GraphProto& graph = file.graph();
  std::set<std::string> of_input;
  for (const ValueInfoProto& input : graph.input()) of_input.insert(input.name());
  for (const TensorProto& initializer : graph.initializer()) of_input.erase(initializer.name());
  for (const NodeProto& node : graph.node()) {
    const bool depends = std::ranges::any_of(
        node.input(), [&](const std::string& name) { return of_input.count(name) > 0; });
    if (!depends || node.op_type() == "Shape" || node.op_type() == "Size") continue;
    of_input.insert(node.output().begin(), node.output().end());
  }
  std::set<std::string> angles, others;
  for (const ValueInfoProto& output : graph.output()) others.insert(output.name());
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph.node(i);
    const bool reads_size = node.op_type() == "Shape" || node.op_type() == "Size";
    if (reads_size || file.IsSecondName(node)) continue;
    const bool wave = node.op_type() == "Sin" || node.op_type() == "Cos";
    bool used = wave, serves = true;
    for (const std::string& name : node.output()) {
      used = used || angles.count(name) + others.count(name) > 0;
      serves = serves && of_input.count(name) == 0 && (wave || others.count(name) == 0);
    }
    if (used) (serves ? angles : others).insert(node.input().begin(), node.input().end());
  }
  for (const std::string& name : others) angles.erase(name);
  return angles;
}

}  // namespace

std::set<std::string> Statistics(const GraphProto& graph) {
  std::set<std::string> names;
  for (const NodeProto& node : graph.node()) {
    if (node.op_type() != "BatchNormalization" || node.input_size() < 5) continue;
    names.insert({node.input(3), node.input(4)});
  }
  return names;
}

void Importer::FindNeeded() {
  needed_.insert(output_);
  for (int i = file_.graph().node_size() - 1; i >= 0; --i) {
    const NodeProto& node = file_.graph().node(i);
    if (file_.IsSecondName(node)) continue;
    const bool needed = std::any_of(node.output().begin(), node.output().end(),
                                    [&](const auto& name) { return needed_.count(name) > 0; });
    if (needed) needed_.insert(node.input().begin(), node.input().end());
    needed_.erase("");  // the name of an omitted input or output
  }
}

absl::Status Importer::CheckNumbers() const {
  for (const auto& [name, array] : file_.initializers()) {
    if (needed_.count(name) == 0) continue;
    const auto wrong = std::find_if(array->reals.begin(), array->reals.end(),
                                    [](float value) { return std::isnan(value); });
    if (wrong == array->reals.end()) continue;
    return InvalidArgumentError(
        "the model ", file_.path(), " has NaN in ", SafeName(name), " (value ",
        wrong - array->reals.begin(), " of ", ShapeText(array->shape),
        "): its training had diverged when it was written, or the file is damaged; export it again "
        "from weights that are numbers");
  }
  return absl::OkStatus();
}

void Importer::FindReached() {
  reached_.insert(output_);
  for (int i = file_.graph().node_size() - 1; i >= 0; --i) {
    const NodeProto& node = file_.graph().node(i);
    if (file_.IsSecondName(node)) continue;
    const auto makes_one_of = [&](const std::set<std::string>& names) {
      return std::ranges::any_of(node.output(),
                                 [&](const std::string& name) { return names.count(name) > 0; });
    };
    const bool reached = makes_one_of(reached_);
    if (!reached && !makes_one_of(lost_)) continue;
    for (const std::string& name : GradientInputs(node)) (reached ? reached_ : lost_).insert(name);
    for (const std::string& name : LostInputs(node)) lost_.insert(name);
    for (std::set<std::string>* names : {&reached_, &lost_}) {
      names->erase("");  // the name of an omitted input or output
    }
  }
}

absl::Status Importer::CheckLost() const {
  for (const auto& [name, array] : file_.initializers()) {
    if (!file_.IsParameter(name) || array->count() == 1 || needed_.count(name) == 0 ||
        IsFrozen(options_.config, name) || WhyHeld(name, *array) != kLost) {
      continue;
    }
    return InvalidArgumentError(
        "the model ", file_.path(), ": PyTorch trains its parameter ", SafeName(name), " (",
        ShapeText(array->shape),
        "), and psgd would not: it does not train exponents, bounds of Clip, and what goes through "
        "Trilu, CumSum, ReduceProd or ScatterND; compute it otherwise, as w * mask for "
        "torch.tril(w), or keep it as it is with model.frozen: [",
        SafeName(name), "]");
  }
  return absl::OkStatus();
}

void Importer::FindTrained() {
  for (int i = file_.graph().node_size() - 1; i >= 0; --i) {
    const NodeProto& node = file_.graph().node(i);
    std::set<std::string>& found = Chooses(node) ? chosen_ : wanted_;
    for (int input : WeightInputs(node)) {
      if (input < node.input_size()) found.insert(node.input(input));
    }
    for (std::set<std::string>* const names : {&wanted_, &chosen_}) {
      const bool passes = std::any_of(node.output().begin(), node.output().end(),
                                      [&](const auto& name) { return names->count(name) > 0; });
      if (!passes) continue;
      for (const std::string& name : PassedOn(node)) names->insert(name);
    }
  }
  angles_ = Angles(file_);
  const std::set<std::string> statistics = Statistics(file_.graph());
  for (const auto& [name, array] : file_.initializers()) {
    const bool trained = array->real() && statistics.count(name) == 0 &&
                         !IsFrozen(options_.config, name) && WhyHeld(name, *array) == nullptr;
    if (trained) trained_.insert(name);
  }
}

const char* Importer::WhyHeld(const std::string& name, const Array& array) const {
  const bool finite = std::all_of(array.reals.begin(), array.reals.end(),
                                  [](float value) { return std::isfinite(value); });
  const bool number = array.shape.empty();
  if (file_.IsBuffer(name)) return "buffers of PyTorch";
  if (!finite) return "masks with infinities";
  if (angles_.count(name) > 0) return "angles of a sine or cosine";
  if (reached_.count(name) == 0) return lost_.count(name) > 0 ? kLost : kUnreached;
  if (file_.IsParameter(name)) return nullptr;
  if (number && file_.MayBeParameter(name)) return kUnmarked;
  if (wanted_.count(name) > 0) return number ? kNumbers : nullptr;
  if (chosen_.count(name) > 0) return array.count() == 1 ? "bounds and values to fill in" : nullptr;
  return kOthers;
}

absl::Status Importer::ChooseTrained() {
  PSGD_RETURN_IF_ERROR(FindOutput());
  FindNeeded();
  PSGD_RETURN_IF_ERROR(CheckFrozen());
  PSGD_RETURN_IF_ERROR(CheckNumbers());
  FindReached();
  FindTrained();
  return absl::OkStatus();
}

std::vector<std::string> Importer::TrainedApart() const {
  std::vector<std::string> apart;
  for (const auto& [name, first] : file_.second_names()) {
    if (trained_.count(name) == 0 || needed_.count(name) == 0) continue;
    apart.push_back(absl::StrCat(SafeName(name), " (as ", SafeName(first), ")"));
  }
  return apart;
}

std::vector<std::string> Importer::TrainedInPlace() const {
  std::vector<std::string> made;
  if (!file_.marks_parameters()) return made;
  for (const auto& [name, array] : Trained()) {
    if (file_.IsParameter(name) || file_.second_names().count(name) > 0) continue;
    made.push_back(absl::StrCat(name, " (", ShapeText(array->shape), ")"));
  }
  return made;
}

std::map<std::string, std::vector<std::string>> Importer::HeldFixed() const {
  const std::set<std::string> statistics = Statistics(file_.graph());
  const std::set<std::string> operands = Operands(file_.graph());
  std::map<std::string, std::vector<std::string>> held;
  const auto add = [&](const std::string& name, const Shape& shape, const char* why) {
    if (needed_.count(name) == 0 || operands.count(name) == 0) return;
    held[why].push_back(absl::StrCat(SafeName(name), " (", ShapeText(shape), ")"));
  };
  for (const auto& [name, array] : file_.initializers()) {
    const bool meant =
        trained_.count(name) > 0 || statistics.count(name) > 0 || IsFrozen(options_.config, name);
    if (!array->real() || meant) continue;
    const char* const why = WhyHeld(name, *array);
    // A number that is no weight is a factor or an epsilon, but one with an axis may be a bound
    // that is meant as a weight.
    const bool plain =
        why == kOthers || why == kUnreached || (array->shape.empty() && why != kNumbers);
    const bool said = file_.IsParameter(name) || file_.IsBuffer(name) || file_.MayBeParameter(name);
    if (array->count() > 1 || !plain || said) add(name, array->shape, why);
  }
  const auto add_constant = [&](const NodeProto& node, const Shape& shape) {
    if (ElementCount(shape) > 1) add(node.output(0), shape, "Constant nodes");
  };
  for (const NodeProto& node : file_.graph().node()) {
    if (node.op_type() != "Constant" || node.output_size() == 0) continue;
    if (const AttributeProto* value = FindAttribute(node, "value")) {
      const TensorProto& tensor = value->t();
      if (IsReal(tensor.data_type())) {
        add_constant(node, {tensor.dims().begin(), tensor.dims().end()});
      }
    } else if (const AttributeProto* row = FindAttribute(node, "value_floats")) {
      add_constant(node, {row->floats_size()});
    }
  }
  return held;
}

std::vector<std::string> Importer::Notes(size_t most) const {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& what, std::vector<std::string> values) {
    if (values.empty()) return;
    if (values.size() > most) {
      const size_t more = values.size() - most;
      values.resize(most);
      values.push_back(absl::StrCat("and ", more, " more"));
    }
    notes.push_back(absl::StrCat(what, ": ", absl::StrJoin(values, ", ")));
  };
  for (const auto& [why, values] : HeldFixed()) {
    add(absl::StrCat("not trained, but kept as the file has them (", why, ")"), values);
  }
  add("trained apart, though the file has their values once", TrainedApart());
  add("trained in place of the parameters that the exporter computed them from (export with "
      "optimize=False to train the parameters)",
      TrainedInPlace());
  return notes;
}

std::map<std::string, ArrayPtr> Importer::Trained() const {
  std::map<std::string, ArrayPtr> trained;
  for (const std::string& name : trained_) {
    if (needed_.count(name) > 0) trained[SafeName(name)] = file_.initializers().at(name);
  }
  return trained;
}

int64_t Importer::CountWeights() const {
  int64_t weights = 0;
  for (const auto& [name, array] : file_.initializers()) {
    if (array->real() && needed_.count(name) > 0) weights += array->count();
  }
  return weights;
}

}  // namespace psgd::onnx
