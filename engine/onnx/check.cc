#include "engine/onnx/check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/onnx/fuse.h"
#include "engine/onnx/importer.h"

namespace psgd {
namespace {

using onnx::AttributeProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

// Tensors and subgraphs have no short text.
std::string TextOf(const AttributeProto& attribute) {
  switch (attribute.type()) {
    case AttributeProto::INT:
      return absl::StrCat(attribute.i());
    case AttributeProto::FLOAT:
      return absl::StrCat(attribute.f());
    case AttributeProto::STRING:
      return onnx::SafeName(attribute.s());
    case AttributeProto::INTS:
      return absl::StrJoin(attribute.ints(), "x");
    case AttributeProto::FLOATS:
      return absl::StrJoin(attribute.floats(), "x");
    default:
      return "";
  }
}

void Count(const NodeProto& node, OnnxCheck* check) {
  ++check->nodes;
  OnnxOp& op = check->ops[onnx::SafeName(node.op_type())];
  ++op.nodes;
  op.fused = op.fused || node.domain() == onnx::kOwnDomain;
  if (node.op_type() == "Constant") return;
  for (const AttributeProto& attribute : node.attribute()) {
    const std::string text = TextOf(attribute);
    if (!text.empty()) op.attributes[onnx::SafeName(attribute.name())].insert(text);
  }
}

// What is known once the importer has chosen what is trained.
void FillChosen(const onnx::OnnxFile& file, const onnx::Importer& importer, OnnxCheck* check) {
  for (const NodeProto& node : file.graph().node()) {
    if (importer.Needs(node)) Count(node, check);
  }
  for (const auto& [name, array] : importer.Trained()) {
    check->trained.push_back({name, ShapeText(array->shape), array->count()});
  }
  check->marks_buffers = file.marks_parameters();
}

std::string SamplesText(const SampleShape& shape) {
  return shape.IsSequence() ? absl::StrCat("sequences of ", shape.length, " tokens")
         : shape.IsSparse()
             ? absl::StrCat("sparse vectors of ", shape.entries, " entries")
             : absl::StrCat("images of ", shape.channels, "x", shape.height, "x", shape.width);
}

// Whether samples of the filled shape have the sizes that the user said. `flat`: the file's input
// has fewer axes than an image.
bool IsAsAsked(const SampleShape& asked, const SampleShape& filled, bool flat) {
  if (asked.IsSequence()) {
    return static_cast<size_t>(asked.length) == filled.elements() && (flat || !filled.IsImage());
  }
  if (asked.channels == 0) return true;
  if (!filled.IsImage()) return false;
  return flat ? asked.elements() == filled.elements()
              : asked.channels == filled.channels && asked.height == filled.height &&
                    asked.width == filled.width;
}

// Fills in the sizes that the file says. The input is an image, tokens, or indices and values.
absl::Status FillShape(const onnx::OnnxFile& file, const ModelConfig& config, SampleShape* shape) {
  onnx::Importer importer(file, {.config = config});
  importer.ChooseTrained().IgnoreError();  // FindProblems says it
  const SampleShape asked = *shape;
  bool tokens = false, flat = false;
  for (const ValueInfoProto* input : importer.Inputs()) {
    const auto& type = input->type().tensor_type();
    const auto& dims = type.shape().dim();
    const auto size = [&](int axis, int otherwise) {
      const bool fixed = axis < dims.size() && dims[axis].has_dim_value() &&
                         dims[axis].dim_value() > 0 && dims[axis].dim_value() < (1 << 24);
      return fixed ? static_cast<int>(dims[axis].dim_value()) : otherwise;
    };
    if (type.elem_type() != TensorProto::FLOAT) {
      tokens = true;
      shape->length = size(1, shape->length);
      shape->channels = shape->height = shape->width = 0;
      continue;
    }
    if (tokens) {  // their values
      shape->entries = std::exchange(shape->length, 0);
    } else if (dims.size() == 4) {
      *shape = {size(1, shape->channels), size(2, shape->height), size(3, shape->width)};
    } else if (dims.size() == 3) {
      flat = true;
      *shape = {1, size(1, shape->height), size(2, shape->width)};
    } else {
      flat = true;
      *shape = {1, 1, size(1, shape->IsSequence() ? shape->length : shape->width)};
    }
  }
  const bool images = shape->channels > 0 && shape->height > 0 && shape->width > 0;
  if (!images && shape->length < 1 && shape->entries < 1) {
    return InvalidArgumentError(
        "the model ", file.path(),
        " leaves the size of its samples open; say --shape, as 3,224,224 for images "
        "or 128 for tokens");
  }
  if (!IsAsAsked(asked, *shape, flat)) {
    return InvalidArgumentError(
        "--shape ",
        asked.IsSequence() ? absl::StrCat(asked.length)
                           : absl::StrCat(asked.channels, ",", asked.height, ",", asked.width),
        " contradicts the model ", file.path(), ", which takes ", SamplesText(*shape),
        "; leave --shape out, or export the model with dynamic_axes");
  }
  shape->classes = 1;
  if (!images) shape->vocabulary = 1;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxCheck> CheckOnnx(const std::string& path, SampleShape shape) {
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(path));
  ModelConfig config;
  config.set_onnx(path);
  PSGD_RETURN_IF_ERROR(FillShape(file, config, &shape));
  OnnxCheck check;
  check.opset = file.opset();
  check.samples = SamplesText(shape);
  // Two samples, because a batch of one leaves no trace in the sizes.
  const auto import = [&](const SampleShape& samples) {
    return std::make_unique<onnx::Importer>(
        file, onnx::ImportOptions{.batch = 2, .shape = samples, .config = config});
  };
  std::unique_ptr<onnx::Importer> importer = import(shape);
  auto problems = importer->FindProblems();
  if (!problems.ok() && shape.IsSequence()) {
    SampleShape whole = shape;  // one label for all tokens
    whole.source = whole.length;
    std::unique_ptr<onnx::Importer> of_texts = import(whole);
    auto others = of_texts->FindProblems();
    if (others.ok()) {
      problems = std::move(others);
      importer = std::move(of_texts);
    }
  }
  FillChosen(file, *importer, &check);
  check.weights = importer->CountWeights();
  check.notes = importer->Notes();
  for (const NodeProto& node : file.graph().node()) {
    const std::string& op = node.op_type();
    if (node.output_size() != 1 || importer->Needs(node) ||
        node.output(0) != file.graph().output(file.graph().output_size() - 1).name() ||
        (op != "Softmax" && op != "LogSoftmax"))
      continue;
    check.notes.push_back(
        absl::StrCat("the last ", op,
                     " is part of the loss, so what ps-ctl export --onnx writes ends before it, in "
                     "logits: apply it to them"));
  }
  if (!problems.ok()) {
    check.problems.push_back({"", "", std::string(problems.status().message())});
    return check;
  }
  for (const onnx::Problem& problem : *problems) {
    check.problems.push_back({onnx::SafeName(problem.node->op_type()),
                              onnx::SafeName(problem.node->name()), problem.why});
  }
  return check;
}

absl::StatusOr<OnnxFacts> FactsOfOnnx(const ModelConfig& config, size_t most) {
  if (!config.has_onnx()) return OnnxFacts();
  PSGD_ASSIGN_OR_RETURN(const onnx::OnnxFile file, onnx::OnnxFile::Read(config.onnx()));
  onnx::Importer importer(file, {.config = config});
  PSGD_RETURN_IF_ERROR(importer.ChooseTrained());
  OnnxFacts facts;
  FillChosen(file, importer, &facts.check);
  for (const std::string& note : importer.Notes(most))
    facts.check.notes.push_back(absl::StrCat(config.onnx(), ": ", note));
  facts.lost = importer.CheckLost();
  return facts;
}

}  // namespace psgd
