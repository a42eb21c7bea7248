#include "engine/onnx/fuse.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "engine/onnx/attributes.h"

namespace psgd::onnx {
namespace {

class Fuser {
 public:
  Fuser(GraphProto* graph, const std::map<std::string, ArrayPtr>& initializers)
      : graph_(graph), initializers_(initializers) {
    for (int i = 0; i < graph->node_size(); ++i) {
      for (const std::string& output : graph->node(i).output()) maker_[output] = i;
    }
    for (const ValueInfoProto& input : graph->input()) {
      if (initializers.count(input.name()) == 0) inputs_.insert(input.name());
    }
  }

  void Run() {
    for (NodeProto& node : *graph_->mutable_node()) {
      if (node.output_size() != 1) continue;
      if (node.op_type() == "Mul" && FuseGelu(&node)) continue;
      if (node.op_type() == "Div" && (FuseNorm(&node) || FuseResponseNorm(&node))) continue;
      if (node.op_type() == "Add") FuseAffine(&node);
      if (node.op_type() == "Where") FusePaddedSoftmax(&node);
      if (node.op_type() == "ReduceSum") FuseEmbeddingBag(&node);
    }
  }

 private:
  const NodeProto* Maker(const std::string& name, const char* op) const {
    const auto found = maker_.find(name);
    if (found == maker_.end()) return nullptr;
    const NodeProto& node = graph_->node(found->second);
    return node.op_type() == op && node.input_size() > 0 ? &node : nullptr;
  }

  std::optional<float> Number(const std::string& name) const {
    ArrayPtr array;
    const NodeProto* constant = nullptr;
    if (const auto found = initializers_.find(name); found != initializers_.end()) {
      array = found->second;
    } else if (const auto maker = maker_.find(name); maker != maker_.end()) {
      constant = &graph_->node(maker->second);
      const AttributeProto* value = FindAttribute(*constant, "value");
      if (constant->op_type() != "Constant" || value == nullptr) return std::nullopt;
      // Called many times for one node, so a larger array is not read.
      const auto& dims = value->t().dims();
      if (std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size != 1; })) {
        return std::nullopt;
      }
      if (const auto read = ReadArray(value->t()); read.ok()) array = *read;
    }
    if (array == nullptr || array->count() != 1) return std::nullopt;
    return array->real() ? array->reals[0] : static_cast<float>(array->ints[0]);
  }

  bool IsNumber(const std::string& name, double wanted) const {
    const std::optional<float> number = Number(name);
    return number && std::fabs(*number - wanted) <= 1e-3 * std::fabs(wanted);
  }

  // The other input of a node with two inputs, if one of them is `number`.
  const std::string* Beside(const NodeProto& node, double number) const {
    if (node.input_size() != 2) return nullptr;
    if (IsNumber(node.input(1), number)) return &node.input(0);
    return IsNumber(node.input(0), number) ? &node.input(1) : nullptr;
  }

  void Become(NodeProto* node, const char* op, const std::vector<std::string>& inputs) {
    node->set_op_type(op);
    node->set_domain(kOwnDomain);
    node->clear_input();
    node->clear_attribute();
    for (const std::string& input : inputs) node->add_input(input);
  }

  // If `name` is 1 + erf(x / sqrt 2), returns x.
  const std::string* ErfOf(const std::string& name) const {
    const NodeProto* sum = Maker(name, "Add");
    const std::string* erf_name = sum == nullptr ? nullptr : Beside(*sum, 1);
    const NodeProto* erf = erf_name == nullptr ? nullptr : Maker(*erf_name, "Erf");
    if (erf == nullptr) return nullptr;
    if (const NodeProto* divided = Maker(erf->input(0), "Div")) {
      const bool root = divided->input_size() == 2 && IsNumber(divided->input(1), std::sqrt(2.0));
      return root ? &divided->input(0) : nullptr;
    }
    const NodeProto* scaled = Maker(erf->input(0), "Mul");
    return scaled == nullptr ? nullptr : Beside(*scaled, std::sqrt(0.5));
  }

  // Fuses x (1 + erf(x / sqrt 2)) 0.5, with factors in any order.
  bool FuseGelu(NodeProto* node) {
    if (node->input_size() != 2) return false;
    for (int outer : {0, 1}) {
      const NodeProto* product = Maker(node->input(outer), "Mul");
      if (product == nullptr || product->input_size() != 2) continue;
      const std::string factors[] = {node->input(1 - outer), product->input(0), product->input(1)};
      for (int erf : {0, 1, 2}) {
        const std::string* x = ErfOf(factors[erf]);
        if (x == nullptr) continue;
        const std::string &a = factors[(erf + 1) % 3], &b = factors[(erf + 2) % 3];
        if ((a == *x && IsNumber(b, 0.5)) || (b == *x && IsNumber(a, 0.5))) {
          Become(node, "Gelu", {*x});
          return true;
        }
      }
    }
    return false;
  }

  // The axis of a mean over one axis that keeps the axis.
  std::optional<int64_t> MeanAxis(const NodeProto& mean) const {
    const std::vector<int64_t> axes = IntsAttribute(mean, "axes");
    if (axes.size() != 1 || IntAttribute(mean, "keepdims", 1) == 0) return std::nullopt;
    return axes[0];
  }

  // If `name` is x minus its mean, returns x.
  const std::string* CentredOf(const std::string& name, int64_t* axis) const {
    const NodeProto* difference = Maker(name, "Sub");
    if (difference == nullptr || difference->input_size() != 2) return nullptr;
    const NodeProto* mean = Maker(difference->input(1), "ReduceMean");
    if (mean == nullptr || mean->input(0) != difference->input(0)) return nullptr;
    const std::optional<int64_t> over = MeanAxis(*mean);
    if (!over) return nullptr;
    *axis = *over;
    return &difference->input(0);
  }

  // Fuses (x - mean) / sqrt(mean of (x - mean)^2 + epsilon), with means over `axis` alone.
  bool FuseNorm(NodeProto* node) {
    if (node->input_size() != 2) return false;
    int64_t axis = 0, square_axis = 0;
    const std::string* x = CentredOf(node->input(0), &axis);
    const NodeProto* root = Maker(node->input(1), "Sqrt");
    const NodeProto* sum = root == nullptr ? nullptr : Maker(root->input(0), "Add");
    if (x == nullptr || sum == nullptr || sum->input_size() != 2) return false;
    for (int i : {0, 1}) {
      const NodeProto* variance = Maker(sum->input(i), "ReduceMean");
      const std::optional<float> epsilon = Number(sum->input(1 - i));
      if (variance == nullptr || !epsilon || MeanAxis(*variance) != axis) continue;
      const NodeProto* square = Maker(variance->input(0), "Pow");
      const bool squared =
          square != nullptr && square->input_size() == 2 && IsNumber(square->input(1), 2);
      if (!squared) square = Maker(variance->input(0), "Mul");
      if (square == nullptr ||
          (!squared && (square->input_size() != 2 || square->input(0) != square->input(1))))
        continue;
      const std::string* of = CentredOf(square->input(0), &square_axis);
      if (of == nullptr || *of != *x || square_axis != axis) continue;
      const std::string input = *x;
      Become(node, "LayerNormalization", {input});
      SetFloat(node, "epsilon", *epsilon);
      SetInt(node, "axis", axis);
      return true;
    }
    return false;
  }

  // The other input of a node with two inputs, if one is a number. Sets `number`.
  const std::string* BesideNumber(const NodeProto* node, float* number) const {
    if (node == nullptr || node->input_size() != 2) return nullptr;
    for (int i : {1, 0}) {
      if (const std::optional<float> found = Number(node->input(i))) {
        *number = *found;
        return &node->input(1 - i);
      }
    }
    return nullptr;
  }

  const NodeProto* Behind(const NodeProto* node, const char* op) const {
    return node == nullptr ? nullptr : Maker(node->input(0), op);
  }

  // Fuses x / (k + alpha m)^beta, where m are the means of x^2 over `size` channels. PyTorch makes
  // them with a pool of five axes: the second is 1, the third has the channels. Padding and the
  // shape of five axes may be computed values, so the importer checks them.
  bool FuseResponseNorm(NodeProto* node) {
    if (node->input_size() != 2) return false;
    const std::string x = node->input(0);
    float k = 0, alpha = 0;
    const NodeProto* power = Maker(node->input(1), "Pow");
    if (power == nullptr || power->input_size() != 2) return false;
    const std::optional<float> beta = Number(power->input(1));
    const std::string* scaled = BesideNumber(Behind(power, "Add"), &k);
    const std::string* means =
        scaled == nullptr ? nullptr : BesideNumber(Maker(*scaled, "Mul"), &alpha);
    const NodeProto* shaped = means == nullptr ? nullptr : Maker(*means, "Reshape");
    const NodeProto* pool = Behind(Behind(shaped, "Squeeze"), "AveragePool");
    const NodeProto* pad = Behind(pool, "Pad");
    const NodeProto* opened = Behind(pad, "Reshape");
    const NodeProto* square = Behind(opened, "Mul");
    if (!beta || square == nullptr || square->input_size() != 2 || square->input(0) != x ||
        square->input(1) != x || opened->input_size() != 2) {
      return false;
    }
    const std::vector<int64_t> window = IntsAttribute(*pool, "kernel_shape");
    const auto all = [&](const char* name, int64_t value) {
      const std::vector<int64_t> values = IntsAttribute(*pool, name);
      return std::ranges::all_of(values, [=](int64_t found) { return found == value; });
    };
    if (window.size() != 3 || window[1] != 1 || window[2] != 1 || !all("strides", 1) ||
        !all("pads", 0)) {
      return false;
    }
    std::vector<std::string> inputs = {x, opened->input(1)};
    if (pad->input_size() > 1) inputs.push_back(pad->input(1));
    const std::vector<int64_t> pads = IntsAttribute(*pad, "pads");
    Become(node, "LRN", inputs);
    SetFloat(node, "alpha", alpha);
    SetFloat(node, "beta", *beta);
    SetFloat(node, "bias", k);
    SetInt(node, "size", window[0]);
    SetInts(node, "pads", pads);
    return true;
  }

  bool IsRow(const std::string& name) const {
    const auto found = initializers_.find(name);
    return found != initializers_.end() && found->second->real() &&
           found->second->shape.size() == 1;
  }

  // Fuses a norm of FuseNorm over the last axis with its weights: norm times a row plus a row.
  void FuseAffine(NodeProto* node) {
    if (node->input_size() != 2) return;
    for (int i : {0, 1}) {
      const NodeProto* product = Maker(node->input(i), "Mul");
      if (product == nullptr || product->input_size() != 2 || !IsRow(node->input(1 - i))) continue;
      for (int k : {0, 1}) {
        const NodeProto* norm = Maker(product->input(k), "LayerNormalization");
        if (norm == nullptr || norm->domain() != kOwnDomain || !IsRow(product->input(1 - k)) ||
            norm->input_size() != 1 || IntAttribute(*norm, "axis", 0) != -1) {
          continue;
        }
        const auto attributes = norm->attribute();
        Become(node, "LayerNormalization",
               {norm->input(0), product->input(1 - k), node->input(1 - i)});
        *node->mutable_attribute() = attributes;
        return;
      }
    }
  }

  std::optional<int64_t> Whole(const std::string& name) const {
    const std::optional<float> number = Number(name);
    if (!number || !(*number >= 0 && *number < (1 << 24))) return std::nullopt;
    return static_cast<int64_t>(*number);
  }

  // The node `op` that makes `name`, if it has two inputs and the second is `number`.
  const NodeProto* WithNumber(const std::string& name, const char* op, double number) const {
    const NodeProto* node = Maker(name, op);
    const bool fits =
        node != nullptr && node->input_size() == 2 && IsNumber(node->input(1), number);
    return fits ? node : nullptr;
  }

  // If `name` marks the places before any padding, returns the tokens: there the sum of (tokens ==
  // padding) up to the place is 0. If only the first places of a row count, sets `places` to their
  // number.
  const std::string* OpenPlaces(const std::string& name, int64_t* padding, int64_t* places) const {
    const NodeProto* sums = Behind(WithNumber(name, "Equal", 0), "CumSum");
    if (sums == nullptr || sums->input_size() != 2 || !IsNumber(sums->input(1), 1) ||
        IntAttribute(*sums, "exclusive", 0) != 0 || IntAttribute(*sums, "reverse", 0) != 0) {
      return nullptr;
    }
    const NodeProto* equal = Behind(Behind(sums, "Cast"), "Equal");
    const std::optional<int64_t> token =
        equal == nullptr || equal->input_size() != 2 ? std::nullopt : Whole(equal->input(1));
    if (!token) return nullptr;
    *padding = *token;
    const NodeProto* slice = Maker(equal->input(0), "Slice");
    if (slice == nullptr) return &equal->input(0);
    const std::optional<int64_t> end =
        slice->input_size() != 4 ? std::nullopt : Whole(slice->input(2));
    if (!end || !IsNumber(slice->input(1), 0) || !IsNumber(slice->input(3), 1)) return nullptr;
    *places = *end;
    return &slice->input(0);
  }

  // Fuses a softmax of scores whose padding is the lowest number before and zero afterwards. The
  // fused inputs are scores, tokens, and the shape that spreads open places over the scores.
  bool FusePaddedSoftmax(NodeProto* node) {
    if (node->input_size() != 3 || !IsNumber(node->input(2), 0)) return false;
    const NodeProto* softmax = Maker(node->input(1), "Softmax");
    const NodeProto* scores = Behind(softmax, "Where");
    const NodeProto* open = Maker(node->input(0), "Reshape");
    if (scores == nullptr || scores->input_size() != 3 || scores->input(0) != node->input(0) ||
        IntAttribute(*softmax, "axis", 0) != -1 || open == nullptr || open->input_size() != 2) {
      return false;
    }
    const std::optional<float> least = Number(scores->input(2));
    int64_t padding = 0, places = -1;
    const std::string* tokens = OpenPlaces(open->input(0), &padding, &places);
    if (tokens == nullptr || !least || *least > -1e9f) return false;
    Become(node, "PaddedSoftmax", {scores->input(1), *tokens, open->input(1)});
    SetInt(node, "padding", padding);
    if (places >= 0) SetInt(node, "places", places);
    return true;
  }

  // Fuses a sum over entries of a table's rows, each times its value. Values are an input: computed
  // ones may need a gradient, which the fused op does not give them.
  bool FuseEmbeddingBag(NodeProto* node) {
    if (node->input_size() != 2 || !IsNumber(node->input(1), 1) ||
        IntAttribute(*node, "keepdims", 1) != 0) {
      return false;
    }
    const NodeProto* weighted = Maker(node->input(0), "Mul");
    if (weighted == nullptr || weighted->input_size() != 2) return false;
    const NodeProto* rows = Maker(weighted->input(0), "Gather");
    const NodeProto* column = WithNumber(weighted->input(1), "Unsqueeze", 2);
    if (rows == nullptr || rows->input_size() != 2 || IntAttribute(*rows, "axis", 0) != 0 ||
        column == nullptr || inputs_.count(column->input(0)) == 0) {
      return false;
    }
    Become(node, "EmbeddingBag", {rows->input(0), rows->input(1), column->input(0)});
    return true;
  }

  GraphProto* const graph_;
  const std::map<std::string, ArrayPtr>& initializers_;
  std::map<std::string, int> maker_;
  std::set<std::string> inputs_;  // of the graph
};

}  // namespace

void FuseNodes(GraphProto* graph, const std::map<std::string, ArrayPtr>& initializers) {
  Fuser(graph, initializers).Run();
}

}  // namespace psgd::onnx
