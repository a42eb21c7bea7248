#include "experiment/launch/onnx_report.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiment/record/readable.h"
#include "experiment/record/records.h"

namespace psgd {
namespace {

constexpr size_t kMostValues = 4;  // of an attribute, in the text

std::string AttributesText(const OnnxOp& op) {
  std::vector<std::string> texts;
  for (const auto& [name, values] : op.attributes) {
    std::vector<std::string> some(values.begin(), values.end());
    if (some.size() > kMostValues) {
      some.resize(kMostValues);
      some.push_back("...");
    }
    texts.push_back(absl::StrCat(name, " ", absl::StrJoin(some, ", ")));
  }
  return absl::StrJoin(texts, "; ");
}

int ProblemsOf(const OnnxCheck& check, const std::string& op) {
  int problems = 0;
  for (const OnnxProblem& problem : check.problems) problems += problem.op == op ? 1 : 0;
  return problems;
}

}  // namespace

std::string EvaluationNote(const OnnxCheck& check) {
  constexpr int kSomeConvolutions = 4;
  constexpr char kHow[] =
      "export it with training=torch.onnx.TrainingMode.TRAINING, "
      "do_constant_folding=False";
  const auto conv = check.ops.find("Conv");
  if (conv == check.ops.end()) return "";
  for (const auto& [name, op] : check.ops) {
    if (name == "Dropout" || absl::StrContains(name, "Normalization")) return "";
  }
  // PyTorch's exporter names so what it makes of a convolution and a batch norm.
  for (const OnnxWeights& weights : check.trained) {
    if (!absl::StartsWith(weights.name, "onnx::Conv_")) continue;
    return absl::StrCat("the exporter made ", weights.name,
                        ", as it does for evaluation of a convolution and its batch norm, and left "
                        "out dropout; to train with both, ",
                        kHow);
  }
  if (conv->second.nodes < kSomeConvolutions) return "";
  return absl::StrCat("the file has ", conv->second.nodes,
                      " convolutions and neither batch norm nor dropout; if the network has them, "
                      "it was exported for evaluation, which takes them out: ",
                      kHow);
}

namespace {

std::vector<std::string> NotesOf(const OnnxCheck& check) {
  std::vector<std::string> notes = check.notes;
  if (std::string note = EvaluationNote(check); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

// Weights whose names differ in numbers alone, as those of equal layers, are one row.
std::string TrainedText(const OnnxCheck& check) {
  struct Group {
    int count = 0;
    int64_t elements = 0;
    std::set<std::string> shapes = {};
  };
  std::map<std::string, Group> groups;
  for (const OnnxWeights& weights : check.trained) {
    std::string pattern;
    for (const char c : weights.name) {
      const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
      if (!digit) pattern += c;
      if (digit && !pattern.ends_with('*')) pattern += '*';
    }
    Group& group = groups[pattern];
    ++group.count;
    group.elements += weights.elements;
    group.shapes.insert(weights.shape);
  }
  TextTable table({"trained", "tensors", "weights", "shape"});
  for (const auto& [pattern, group] : groups) {
    table.Add({pattern, absl::StrCat(group.count),
               ReadableCount(static_cast<double>(group.elements)),
               group.shapes.size() == 1 ? *group.shapes.begin() : "several"});
  }
  std::string text = absl::StrCat("\n", table.Text());
  if (!check.marks_buffers) {
    absl::StrAppend(
        &text,
        "  The file does not say which of these are buffers of PyTorch: name buffers, as "
        "fixed filters, in model.frozen.\n");
  }
  return text;
}

std::string Where(const OnnxProblem& problem) {
  if (problem.op.empty()) return "";
  return absl::StrCat(problem.op, problem.node.empty() ? "" : " node " + problem.node, ": ");
}

std::string Json(const std::string& path, const OnnxCheck& check) {
  Record ops = Record::array(), trained = Record::array(), problems = Record::array();
  for (const auto& [name, op] : check.ops) {
    ops.push_back({{"op", name},
                   {"nodes", op.nodes},
                   {"fused", op.fused},
                   {"attributes", op.attributes},
                   {"refused", ProblemsOf(check, name)}});
  }
  for (const OnnxWeights& weights : check.trained) {
    trained.push_back(
        {{"name", weights.name}, {"shape", weights.shape}, {"elements", weights.elements}});
  }
  for (const OnnxProblem& problem : check.problems) {
    problems.push_back({{"op", problem.op}, {"node", problem.node}, {"why", problem.why}});
  }
  const Record record = {{"file", path},
                         {"taken", check.problems.empty()},
                         {"opset", check.opset},
                         {"nodes", check.nodes},
                         {"weights", check.weights},
                         {"samples", check.samples},
                         {"ops", ops},
                         {"trained", trained},
                         {"marks_buffers", check.marks_buffers},
                         {"notes", NotesOf(check)},
                         {"problems", problems}};
  return record.dump(2) + "\n";
}

}  // namespace

absl::StatusOr<SampleShape> ParseSampleShape(const std::string& text) {
  SampleShape shape;
  if (text.empty()) return shape;
  std::vector<int> sizes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1 || size > (1 << 24)) {
      sizes.clear();
      break;
    }
    sizes.push_back(size);
  }
  if (sizes.size() == 1) {
    shape.length = sizes[0];
  } else if (sizes.size() == 3) {
    shape = {sizes[0], sizes[1], sizes[2]};
  } else {
    return InvalidArgumentError(
        "--shape ", text, " is not the size of a sample: say 3,224,224 for images, 128 for tokens");
  }
  return shape;
}

std::string OnnxCheckText(const std::string& path, const OnnxCheck& check, bool json) {
  if (json) return Json(path, check);
  std::string text =
      absl::StrFormat("%s: opset %d, %d nodes, %s weights, %s\n\n", path, check.opset, check.nodes,
                      ReadableCount(static_cast<double>(check.weights)), check.samples);
  TextTable table({"op", "nodes", "refused", "attributes"});
  for (const auto& [name, op] : check.ops) {
    const int refused = ProblemsOf(check, name);
    table.Add({absl::StrCat(name, op.fused ? " (of several)" : ""), absl::StrCat(op.nodes),
               refused == 0 ? "" : absl::StrCat(refused), AttributesText(op)});
  }
  absl::StrAppend(&text, table.Text(), TrainedText(check));
  for (const std::string& note : NotesOf(check)) absl::StrAppend(&text, "\nnote: ", note, "\n");
  if (check.problems.empty()) return text + "\npsgd takes all of it\n";
  absl::StrAppend(&text, "\nnot taken:\n");
  for (const OnnxProblem& problem : check.problems) {
    absl::StrAppend(&text, "  ", Where(problem), problem.why, "\n");
  }
  return text;
}

absl::Status OnnxCheckStatus(const std::string& path, const OnnxCheck& check) {
  if (check.problems.empty()) return absl::OkStatus();
  const size_t count = check.problems.size();
  return FailedPreconditionError(
      "psgd does not take ", path, " as it is, for ", count, count == 1 ? " reason" : " reasons",
      " (above); replace these parts in the network and export it again; "
      "docs/engine.md lists what is taken");
}

}  // namespace psgd
