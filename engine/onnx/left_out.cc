#include "engine/onnx/left_out.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/bytes.h"

namespace psgd::onnx {
namespace {

using Act = Activation::Kind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// What underflows to zero only beside enormous inputs, as exp(x), counts as larger than zero.
constexpr double kSmall = std::numeric_limits<float>::min();
constexpr size_t kMostSpoiled = 50;  // choices in one error

// What is known of the elements of a tensor.
struct Facts {
  double low = -kInfinite, high = kInfinite;  // of those that are numbers
  TensorId wild = kNoTensor;  // the first tensor on the way here that may be infinite or NaN
  bool trained = false;       // computed from trained weights,
  bool sampled = false;       // from samples
};

// Bounds of an unknown element may be infinite; zero times it is zero.
double Times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

void Scale(double by, Facts* facts) {
  facts->low = Times(facts->low, by);
  facts->high = Times(facts->high, by);
  if (by < 0) std::swap(facts->low, facts->high);
}

void Cover(double number, Facts* facts) {
  facts->low = std::min(facts->low, number);
  facts->high = std::max(facts->high, number);
}

bool Adds(const Op& op) {
  return std::holds_alternative<Sum>(op) || std::holds_alternative<Bias>(op) ||
         std::holds_alternative<RowBias>(op);
}
bool Moves(const Op& op) {
  if (const auto* map = std::get_if<AxisMap>(&op)) {
    const AxisMatrix& matrix = *map->matrix;
    return matrix.weight.size() == static_cast<size_t>(matrix.rows()) &&
           std::ranges::all_of(matrix.weight, [](float weight) { return weight == 1; });
  }
  return std::holds_alternative<Reshape>(op) || std::holds_alternative<Transpose>(op);
}
// Whether results are elements of the input.
bool Keeps(const Op& op) {
  const auto* pool = std::get_if<Pool>(&op);
  return std::holds_alternative<Reshape>(op) || std::holds_alternative<Transpose>(op) ||
         std::holds_alternative<Slice>(op) || std::holds_alternative<Upsample>(op) ||
         (pool != nullptr && pool->kind == Pool::Kind::kMax);
}
bool Averages(const Op& op) {
  return (std::holds_alternative<Pool>(op) && !Keeps(op)) ||
         std::holds_alternative<AdaptiveAveragePool>(op);
}
// Whether what has the gradient zero in the result has it in the input, too: the op computes
// element by element, moves elements or adds them up.
bool PassesZerosOn(const Op& op) {
  return Adds(op) || Keeps(op) || Averages(op) || std::holds_alternative<Activation>(op) ||
         std::holds_alternative<Relu>(op) || std::holds_alternative<Mul>(op) ||
         std::holds_alternative<Select>(op) || std::holds_alternative<Dropout>(op) ||
         std::holds_alternative<AxisMap>(op) || std::holds_alternative<Concat>(op) ||
         std::holds_alternative<Pad>(op);
}

// The values of a tensor, as scale * base + shift. Equal bases have one number.
struct Affine {
  double scale = 1, shift = 0;
  int base = 0;
};

// What a choice chooses by: whether a base is positive.
struct Condition {
  int base = 0;
  bool positive = true;
  bool operator==(const Condition&) const = default;
};

// Tells which tensors have equal values, because the same ops make them.
class Names {
 public:
  explicit Names(const Graph& graph) : affine_(graph.tensors.size()) {
    for (Affine& affine : affine_) affine.base = next_++;
    for (const Node& node : graph.nodes) affine_[node.outputs[0]] = NameOf(graph, node);
  }

  const Affine& of(TensorId tensor) const { return affine_[tensor]; }
  bool Same(TensorId a, TensorId b) const { return Text(of(a)) == Text(of(b)); }

  // 1 - x is the opposite of a truth value x.
  Condition ConditionOf(const Node& select) const {
    const Affine& affine = of(select.inputs[0]);
    return {affine.base, affine.scale > 0};
  }
  // What the step with the number `base` is of. Null: no step has the number.
  const Affine* StepOf(int base) const {
    const auto found = steps_.find(base);
    return found == steps_.end() ? nullptr : &found->second;
  }

 private:
  static std::string Text(const Affine& affine) {
    return absl::StrCat(std::bit_cast<uint64_t>(affine.scale), " ",
                        std::bit_cast<uint64_t>(affine.shift), " ", affine.base, ";");
  }

  Affine NameOf(const Graph& graph, const Node& node) {
    const Affine own = of(node.outputs[0]);
    std::string key = absl::StrCat(node.op.index(), ":");
    Affine from = node.inputs.empty() ? Affine() : of(node.inputs[0]);
    const auto named = [&](Affine affine) {
      affine.base = numbers_.emplace(key, own.base).first->second;
      return affine;
    };
    if (const auto* activation = std::get_if<Activation>(&node.op)) {
      if (activation->kind == Act::kLinear) {
        return {activation->alpha * from.scale, activation->alpha * from.shift + activation->beta,
                from.base};
      }
      if (activation->kind == Act::kStep && from.scale != 0) {  // only the sign matters
        from.shift = from.shift / std::fabs(from.scale) + 0.0;
        from.scale = from.scale > 0 ? 1 : -1;
      }
      absl::StrAppend(&key, static_cast<int>(activation->kind), " ",
                      std::bit_cast<uint32_t>(activation->alpha), " ",
                      std::bit_cast<uint32_t>(activation->beta), ";", Text(from));
      const Affine made = named({});
      if (activation->kind == Act::kStep) steps_[made.base] = from;
      return made;
    }
    if (Moves(node.op)) {
      absl::StrAppend(&key, ShapeText(graph.shape(node.outputs[0])), ";", from.base);
      if (const auto* map = std::get_if<AxisMap>(&node.op)) {
        absl::StrAppend(&key, ";", map->axis, ";", Checksum(map->matrix->source));
      } else if (const auto* transpose = std::get_if<Transpose>(&node.op)) {
        absl::StrAppend(&key, ";", absl::StrJoin(transpose->permutation, ","));
      }
      return named({from.scale, from.shift, 0});
    }
    if (const auto* constant = std::get_if<Constant>(&node.op)) {
      absl::StrAppend(&key, ShapeText(graph.shape(node.outputs[0])), ";",
                      Checksum(*constant->values));
      return named({});
    }
    if (!std::holds_alternative<Sum>(node.op) && !std::holds_alternative<Mul>(node.op)) return own;
    for (const TensorId input : node.inputs) absl::StrAppend(&key, Text(of(input)));
    return named({});
  }

  template <typename T>
  static uint64_t Checksum(const std::vector<T>& values) {
    return ChecksumOf(std::as_bytes(std::span(values)));
  }

  std::vector<Affine> affine_;  // by tensor
  std::map<std::string, int> numbers_;
  std::map<int, Affine> steps_;
  int next_ = 0;
};

class Analysis {
 public:
  // Analyses the elements where the condition holds. Null: all elements.
  Analysis(const Graph& graph, const Names& names, const Condition* holds)
      : graph_(graph),
        names_(names),
        holds_(holds),
        facts_(graph.tensors.size()),
        makers_(graph.tensors.size(), nullptr) {
    for (Facts& facts : facts_) facts.sampled = true;
    for (const Parameter& parameter : graph.parameters) {
      facts_[parameter.value].sampled = false;
      facts_[parameter.value].trained = graph.tensors[parameter.value].wants_gradient;
    }
    for (const Node& node : graph.nodes) {
      for (const TensorId output : node.outputs) makers_[output] = &node;
      const Facts made = Made(node);
      for (const TensorId output : node.outputs) facts_[output] = made;
    }
  }

  // Why gradients may be NaN before these choices, by the choices' numbers. `first`: before this
  // branch alone.
  std::map<size_t, std::string> Find(const std::map<TensorId, size_t>& choices,
                                     std::optional<bool> first) const {
    constexpr size_t kNone = std::numeric_limits<size_t>::max();
    std::vector<size_t> reached(graph_.tensors.size(), kNone);  // by which choice's zero gradient
    std::map<size_t, std::string> whys;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const TensorId made = node->outputs[0];
      const auto place = choices.find(made);
      const size_t choice = place != choices.end() ? place->second : reached[made];
      if (choice == kNone) continue;
      const auto* select = std::get_if<Select>(&node->op);
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const TensorId input = node->inputs[i];
        const bool is_first = select != nullptr && !select->a && i == 1;
        const bool other =
            select != nullptr && place != choices.end() && first && *first != is_first;
        if (!facts_[input].trained || (select != nullptr && i == 0) || other) continue;
        if (const TensorId wild = WildFactor(*node, i); wild != kNoTensor) {
          whys.emplace(choice, Why(wild));
        } else if (PassesZerosOn(node->op)) {
          reached[input] = choice;
        }
      }
    }
    return whys;
  }

 private:
  const Facts& of(const Node& node, size_t input) const { return facts_[node.inputs[input]]; }

  // The facts of a node's results.
  Facts Made(const Node& node) const {
    Facts made;
    for (const TensorId input : node.inputs) {
      made.trained = made.trained || facts_[input].trained;
      made.sampled = made.sampled || facts_[input].sampled;
      if (made.wild == kNoTensor) made.wild = facts_[input].wild;
    }
    const auto bound = [&](const Facts& facts) {
      made.low = facts.low;
      made.high = facts.high;
    };
    if (const auto* constant = std::get_if<Constant>(&node.op)) {
      const auto [low, high] = std::ranges::minmax(*constant->values);
      made.low = low;
      made.high = high;
      if (!std::isfinite(low) || !std::isfinite(high)) made.wild = node.outputs[0];
    } else if (const auto* activation = std::get_if<Activation>(&node.op)) {
      Activate(*activation, node, &made);
    } else if (std::holds_alternative<Relu>(node.op)) {
      made.low = std::max(0.0, of(node, 0).low);
      made.high = std::max(0.0, of(node, 0).high);
    } else if (std::holds_alternative<Mul>(node.op)) {
      bound(Product(node));
    } else if (Adds(node.op)) {
      bound(Total(node));
    } else if (const auto* select = std::get_if<Select>(&node.op)) {
      bound(Chosen(*select, node));
      made.wild = kNoTensor;  // choices keep what is infinite out
    } else if (const auto* map = std::get_if<AxisMap>(&node.op)) {
      bound(Mapped(*map->matrix, of(node, 0)));
    } else if (std::holds_alternative<Softmax>(node.op)) {
      bound({.low = kSmall, .high = 1});
      made.wild = kNoTensor;
    } else if (std::holds_alternative<Concat>(node.op)) {
      bound(of(node, 0));
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        Cover(of(node, i).low, &made);
        Cover(of(node, i).high, &made);
      }
    } else if (Keeps(node.op)) {
      bound(of(node, 0));
    } else if (Averages(node.op)) {
      bound(of(node, 0));
      Cover(0, &made);  // around images are zeros
    } else if (const auto* pad = std::get_if<Pad>(&node.op)) {
      bound(of(node, 0));
      Cover(pad->value, &made);
    } else if (!PassesZerosOn(node.op)) {
      made.wild = kNoTensor;
    }
    return made;
  }

  void Activate(const Activation& op, const Node& node, Facts* made) const {
    const auto& [low, high, wild, trained, sampled] = of(node, 0);
    const auto bound = [&](double least, double most) {
      made->low = least;
      made->high = most;
    };
    // What is made of weights alone is the same where it is chosen.
    const auto outside = [&] {
      if (made->wild == kNoTensor && sampled) made->wild = node.outputs[0];
    };
    switch (op.kind) {
      case Act::kSigmoid:
        return bound(kSmall, 1);
      case Act::kHardSigmoid:
      case Act::kStep:
        return bound(0, 1);
      case Act::kTanh:
      case Act::kSin:
      case Act::kCos:
        return bound(-1, 1);
      case Act::kSoftplus:
        return bound(kSmall, kInfinite);
      case Act::kAbsolute:
        return bound(low > 0 ? low : high < 0 ? -high : 0, std::max(-low, high));
      case Act::kClip:
        return bound(std::clamp<double>(low, op.alpha, op.beta),
                     std::clamp<double>(high, op.alpha, op.beta));
      case Act::kLinear:
        if (!std::isfinite(op.alpha) || !std::isfinite(op.beta)) return outside();
        bound(low, high);
        Scale(op.alpha, made);
        made->low += op.beta;
        made->high += op.beta;
        return;
      case Act::kExp:
        // Above 88 it overflows. Networks that train do not get there, and the usual ways to write
        // elu and selu would be refused.
        return bound(std::max(kSmall, std::exp(low)), std::exp(high));
      case Act::kLog:
        if (low <= 0) return outside();
        return bound(std::log(low), std::log(high));
      case Act::kPower: {
        const double power = op.alpha;
        if (low > 0 || (low >= 0 && power > 0)) {
          bound(std::pow(low, power), std::pow(high, power));
          if (power < 0) std::swap(made->low, made->high);
        } else if (power < 0 || power != std::floor(power)) {
          outside();
        }
        return;
      }
      default:
        return;
    }
  }

  Facts Product(const Node& node) const {
    const Facts &a = of(node, 0), &b = of(node, 1);
    Facts product = {.low = kInfinite, .high = -kInfinite};
    for (const double left : {a.low, a.high}) {
      for (const double right : {b.low, b.high}) Cover(Times(left, right), &product);
    }
    if (names_.Same(node.inputs[0], node.inputs[1])) product.low = std::max(0.0, product.low);
    return product;
  }

  Facts Total(const Node& node) const {
    Facts total = {.low = 0, .high = 0};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      total.low += of(node, i).low;
      total.high += of(node, i).high;
    }
    if (std::isnan(total.low)) total.low = -kInfinite;
    if (std::isnan(total.high)) total.high = kInfinite;
    const auto less = [&](size_t a, size_t b) { return IsLargest(node.inputs[a], node.inputs[b]); };
    if (node.inputs.size() == 2 && (less(0, 1) || less(1, 0))) total.high = 0;
    return total;
  }

  Facts Chosen(const Select& op, const Node& node) const {
    Facts chosen = {.low = kInfinite, .high = -kInfinite};
    const Condition condition = names_.ConditionOf(node);
    const auto cover = [&](const std::optional<float>& number, int place, bool first) {
      const bool known = holds_ != nullptr && condition.base == holds_->base;
      if (known && first != (condition == *holds_)) return;
      Facts branch = {.low = number.value_or(0), .high = number.value_or(0)};
      if (!number) branch = Within(node.inputs[place], condition, first);
      Cover(branch.low, &chosen);
      Cover(branch.high, &chosen);
    };
    cover(op.a, op.place_of_a(), true);
    cover(op.b, op.place_of_b(), false);
    return chosen;
  }

  // The facts of a branch where the condition holds, or else where it does not: for example x is
  // positive where x > 0.
  Facts Within(TensorId branch, const Condition& condition, bool holds) const {
    Facts facts = facts_[branch];
    const Affine* step = names_.StepOf(condition.base);
    const Affine& affine = names_.of(branch);
    if (step == nullptr || step->base != affine.base || affine.scale <= 0) return facts;
    const bool positive = holds == condition.positive;  // scale * base + shift > 0
    const double bound = -step->shift / step->scale;    // of the base
    if ((step->scale > 0) == positive) {
      const double low = affine.scale * bound + affine.shift;
      facts.low = std::max(facts.low, positive && low == 0 ? kSmall : low);
    } else {
      facts.high = std::min(facts.high, affine.scale * bound + affine.shift);
    }
    return facts;
  }

  static Facts Mapped(const AxisMatrix& matrix, const Facts& from) {
    Facts mapped = {.low = kInfinite, .high = -kInfinite};
    for (int64_t row = 0; row < matrix.rows(); ++row) {
      double low = 0, high = 0;
      for (int32_t k = matrix.first[row]; k < matrix.first[row + 1]; ++k) {
        Facts part = from;
        Scale(matrix.weight[k], &part);
        low += part.low;
        high += part.high;
      }
      Cover(low, &mapped);
      Cover(high, &mapped);
    }
    return mapped;
  }

  // Whether `most` is minus the largest elements of a row of x, so that their sum is at most zero.
  bool IsLargest(TensorId x, TensorId most) const {
    bool negated = false;
    while (const Node* node = makers_[most]) {
      const auto* activation = std::get_if<Activation>(&node->op);
      const auto* pool = std::get_if<Pool>(&node->op);
      if (pool != nullptr) {
        if (!negated || pool->kind != Pool::Kind::kMax) return false;
        return names_.Same(Unmoved(node->inputs[0]), Unmoved(x));
      }
      if (activation != nullptr && activation->kind == Act::kLinear && activation->alpha == -1 &&
          activation->beta == 0 && !negated) {
        negated = true;
      } else if (!Moves(node->op)) {
        return false;
      }
      most = node->inputs[0];
    }
    return false;
  }

  // The tensor from which another one is only moved.
  TensorId Unmoved(TensorId tensor) const {
    while (makers_[tensor] != nullptr && Moves(makers_[tensor]->op)) {
      tensor = makers_[tensor]->inputs[0];
    }
    return tensor;
  }

  // What may be infinite or NaN in the slope of a node's result by its input. kNoTensor: nothing.
  TensorId WildFactor(const Node& node, size_t input) const {
    if (std::holds_alternative<Mul>(node.op)) return of(node, 1 - input).wild;
    if (const auto* activation = std::get_if<Activation>(&node.op)) {
      switch (activation->kind) {
        case Act::kLog:
        case Act::kPower:
          return facts_[node.outputs[0]].wild;
        case Act::kLinear:
          return std::isfinite(activation->alpha) ? kNoTensor : node.outputs[0];
        case Act::kClip:
        case Act::kAbsolute:
        case Act::kStep:
        case Act::kLeakyRelu:
          return kNoTensor;
        default:
          return of(node, input).wild;
      }
    }
    // A softmax takes minus infinity, as of masks.
    if (PassesZerosOn(node.op) || std::holds_alternative<Softmax>(node.op)) return kNoTensor;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (of(node, i).wild != kNoTensor) return of(node, i).wild;
    }
    return kNoTensor;
  }

  std::string Why(TensorId wild) const {
    std::string what = "a constant that is not finite", advice = "put a finite number in its place";
    const auto bounded = [&](const char* op, const char* input, const char* bound) {
      what = absl::StrCat("the ", op, " ", graph_.tensors[wild].name);
      advice = absl::StrCat("bound its ", input, ", as by torch.clamp(x, ", bound,
                            "), a Clip of ONNX, before the ", op);
    };
    if (const auto* activation = std::get_if<Activation>(&makers_[wild]->op)) {
      const bool divides = activation->kind == Act::kPower && activation->alpha < 0;
      if (activation->kind == Act::kLog) bounded("logarithm", "input", "min=1e-6");
      if (divides) bounded("division", "divisor", "min=1e-6");
      if (activation->kind == Act::kPower && !divides) bounded("root", "input", "min=1e-6");
    }
    return absl::StrCat(
        "leaves out values that may be infinite or NaN, because of ", what,
        "; their gradient is 0, and weights before it get 0 times infinity, which is NaN, in "
        "PyTorch, too: ",
        advice);
  }

  const Graph& graph_;
  const Names& names_;
  const Condition* const holds_;
  std::vector<Facts> facts_;         // by tensor
  std::vector<const Node*> makers_;  // by tensor; null: an input or a parameter
};

}  // namespace

std::vector<SpoiledChoice> SpoiledChoices(const Graph& graph,
                                          const std::vector<TensorId>& choices) {
  if (choices.empty()) return {};
  const Names names(graph);
  std::map<TensorId, size_t> all;
  for (size_t i = 0; i < choices.size(); ++i) all[choices[i]] = i;
  std::vector<SpoiledChoice> spoiled;
  for (const auto& [place, unused] : Analysis(graph, names, nullptr).Find(all, std::nullopt)) {
    // A closer look: other choices by the same condition leave out the same elements.
    const auto node = std::ranges::find_if(graph.nodes, [&, place = place](const Node& candidate) {
      return candidate.outputs[0] == choices[place];
    });
    for (const bool first : {true, false}) {
      Condition left_out = names.ConditionOf(*node);
      left_out.positive = left_out.positive != first;
      auto whys = Analysis(graph, names, &left_out).Find({{choices[place], place}}, first);
      if (whys.empty()) continue;
      spoiled.push_back({place, std::move(whys.begin()->second)});
      break;
    }
    if (spoiled.size() == kMostSpoiled) break;
  }
  return spoiled;
}

}  // namespace psgd::onnx
