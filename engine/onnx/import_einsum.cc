// Products of tensors over named axes.
#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/broadcast.h"
#include "engine/ops/rules.h"

namespace psgd::onnx {
namespace {

bool Has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

// A tensor whose axes have letters.
struct Lettered {
  TensorId tensor = kNoTensor;
  std::string letters;
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

absl::StatusOr<Equation> ParseEquation(const OpContext& c) {
  std::string text = TextAttribute(c.node, "equation", "");
  std::erase_if(text, [](char letter) { return letter == ' '; });
  const auto refuse = [&] {
    return c.Unsupported(absl::StrCat("the equation ", SafeName(text),
                                      "; psgd takes letters, each once in an operand, for one or "
                                      "two operands, as bij,bjk->bik"));
  };
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) return refuse();
  Equation equation;
  equation.operands = absl::StrSplit(sides[0], ',');
  const std::string all = absl::StrCat(sides[0]);
  if (sides.size() == 2) {
    equation.result = sides[1];
  } else {
    // Without a result, its letters are those that occur once, in alphabetic order.
    for (char letter = 'A'; letter <= 'z'; ++letter) {
      if (std::isalpha(letter) && std::count(all.begin(), all.end(), letter) == 1) {
        equation.result += letter;
      }
    }
  }
  std::vector<std::string> parts = equation.operands;
  parts.push_back(equation.result);
  for (const std::string& part : parts) {
    for (char letter : part) {
      if (!std::isalpha(static_cast<unsigned char>(letter)) ||
          std::count(part.begin(), part.end(), letter) > 1 || !Has(all, letter)) {
        return refuse();
      }
    }
  }
  if (equation.operands.size() > 2 || equation.operands.size() != c.inputs.size() ||
      equation.operands[0].empty() || equation.operands.back().empty()) {
    return refuse();
  }
  return equation;
}

absl::StatusOr<Lettered> Reordered(const OpContext& c, Lettered x, const std::string& letters) {
  std::vector<int> order;
  for (char letter : letters) order.push_back(static_cast<int>(x.letters.find(letter)));
  if (x.letters == letters) return x;
  PSGD_ASSIGN_OR_RETURN(x.tensor, AddTranspose(c.graph(), c.name + ".order", {order}, x.tensor));
  x.letters = letters;
  return x;
}

// Adds up the axes whose letters are not among `kept`.
absl::StatusOr<Lettered> SummedTo(const OpContext& c, Lettered x, const std::string& kept) {
  std::vector<int> axes;
  Lettered made;
  Shape shape;
  const Shape in = c.graph()->shape(x.tensor);
  for (size_t i = 0; i < x.letters.size(); ++i) {
    if (!Has(kept, x.letters[i])) {
      axes.push_back(static_cast<int>(i));
      continue;
    }
    made.letters += x.letters[i];
    shape.push_back(in[i]);
  }
  if (axes.empty()) return x;
  PSGD_ASSIGN_OR_RETURN(made.tensor, Reduce(c, Reduction::kSum, axes, x.tensor));
  if (shape.empty()) shape = {1};
  PSGD_ASSIGN_OR_RETURN(made.tensor, AddReshape(c.graph(), c.name + ".summed", made.tensor, shape));
  return made;
}

// The product of matrices: letters in both and in the result number the matrices, the others of a
// are rows, the others of b columns. If b ends in a summed letter, the product itself transposes.
absl::StatusOr<Lettered> Product(const OpContext& c, const Lettered& a, const Lettered& b,
                                 const std::string& result) {
  Graph* g = c.graph();
  std::string matrices, rows, columns, summed;
  for (char letter : a.letters) {
    (!Has(b.letters, letter) ? rows : Has(result, letter) ? matrices : summed) += letter;
  }
  for (char letter : b.letters) {
    if (!Has(a.letters, letter)) columns += letter;
  }
  PSGD_ASSIGN_OR_RETURN(const Lettered left, Reordered(c, a, matrices + rows + summed));
  const bool flip = !b.letters.empty() && Has(summed, b.letters.back());
  PSGD_ASSIGN_OR_RETURN(const Lettered right,
                        Reordered(c, b, matrices + (flip ? columns + summed : summed + columns)));
  const auto part = [&](const Lettered& of, size_t begin, size_t length) {
    const Shape& shape = g->shape(of.tensor);
    const auto first = shape.begin() + static_cast<int64_t>(begin);
    return Shape(first, first + static_cast<int64_t>(length));
  };
  const Shape shape = part(left, 0, matrices.size());
  const Shape high = part(left, matrices.size(), rows.size());
  const Shape wide = part(right, matrices.size() + (flip ? 0 : summed.size()), columns.size());
  const int64_t m = ElementCount(high), n = ElementCount(wide);
  const int64_t k = ElementCount(g->shape(left.tensor)) / (ElementCount(shape) * m);
  const auto shaped = [&](const char* what, TensorId of, const Shape& end) {
    Shape to = shape;
    to.insert(to.end(), end.begin(), end.end());
    if (to.empty()) to = {1};
    return to == g->shape(of) ? absl::StatusOr<TensorId>(of)
                              : AddReshape(g, absl::StrCat(c.name, what), of, to);
  };
  PSGD_ASSIGN_OR_RETURN(const TensorId x, shaped(".left", left.tensor, {m, k}));
  PSGD_ASSIGN_OR_RETURN(const TensorId y,
                        shaped(".right", right.tensor, flip ? Shape{n, k} : Shape{k, n}));
  Lettered made = {.letters = matrices + rows + columns};
  PSGD_ASSIGN_OR_RETURN(made.tensor, AddMatMul(g, c.name, {.transpose_b = flip}, x, y));
  Shape end = high;
  end.insert(end.end(), wide.begin(), wide.end());
  PSGD_ASSIGN_OR_RETURN(made.tensor, shaped(".product", made.tensor, end));
  return made;
}

Imported ImportEinsum(const OpContext& c) {
  PSGD_ASSIGN_OR_RETURN(const Equation equation, ParseEquation(c));
  std::vector<Lettered> operands;
  char batch = 0;  // its letter
  int64_t outer = kNoBatch;
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError("lacks an input");
    const std::string& letters = equation.operands[i];
    const Shape shape = c.shape(i);
    if (shape.size() != letters.size()) {
      return InvalidArgumentError("has the letters ", letters, " for ", ShapeText(shape));
    }
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      const auto [size, added] = sizes.emplace(letters[axis], shape[axis]);
      if (!added && size->second != shape[axis]) {
        return InvalidArgumentError("has two sizes for ", letters.substr(axis, 1));
      }
    }
    if (const int axis = BatchAxis(shape, c.in(i).outer, c.importer.batch()); axis >= 0) {
      if (batch != 0 && batch != letters[axis]) {
        return c.CombinesSamples();
      }
      batch = letters[axis];
    }
    PSGD_ASSIGN_OR_RETURN(const TensorId tensor, c.Tensor(i));
    std::string kept = equation.result;
    for (size_t k = 0; k < equation.operands.size(); ++k) {
      if (k != i) kept += equation.operands[k];
    }
    PSGD_ASSIGN_OR_RETURN(const Lettered operand, SummedTo(c, {tensor, letters}, kept));
    operands.push_back(operand);
  }
  if (batch != 0) {
    if (!Has(equation.result, batch)) return c.CombinesSamples();
    outer = 1;
    for (char letter : equation.result.substr(0, equation.result.find(batch))) {
      outer *= sizes[letter];
    }
  }
  Lettered made = operands[0];
  if (operands.size() == 2) {
    PSGD_ASSIGN_OR_RETURN(made, Product(c, operands[0], operands[1], equation.result));
  }
  PSGD_ASSIGN_OR_RETURN(made, Reordered(c, made, equation.result));
  return std::vector<Value>{
      {.tensor = made.tensor, .outer = outer, .scalar = equation.result.empty()}};
}

}  // namespace

void AddEinsum(OpTable* table) { (*table)["Einsum"] = ImportEinsum; }

}  // namespace psgd::onnx
