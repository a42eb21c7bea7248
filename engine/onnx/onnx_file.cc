#include "engine/onnx/onnx_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/onnx/fuse.h"

namespace psgd::onnx {
namespace {

constexpr int64_t kOldestOpset = 9, kNewestOpset = 20;
// The time to plan a step's memory grows with the square of the nodes.
constexpr int kMostNodes = 20000;
constexpr char kPyTorch[] = "pytorch";  // the producer in files of its exporter
// The key of a value's mark, whose values are those of torch.export's InputKind.
constexpr char kMark[] = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr char kMarkOfParameters[] = "PARAMETER";
constexpr size_t kLongestName = 256;                          // that shards take
constexpr uintmax_t kLargestFile = (uintmax_t{1} << 31) - 1;  // protobuf reads no larger file

absl::Status NotAModel(const std::string& what) { return absl::InvalidArgumentError(what); }

// Whether the name is as that of a parameter of PyTorch, or of one that its exporter has
// transposed, as onnx::MatMul_12. A copy that the network makes is called /LAYER/Identity_output_0
// or 12.
bool IsOfParameter(const std::string& name, const std::string& producer) {
  const bool transposed = producer == kPyTorch && name.starts_with("onnx::");
  return name.find('/') == std::string::npos &&
         (transposed || name.find(':') == std::string::npos) &&
         !std::ranges::all_of(name, absl::ascii_isdigit);
}

bool IsTaken(const std::string& name) {
  return name.size() <= kLongestName &&
         std::ranges::all_of(name, [](char c) { return absl::ascii_isgraph(c); });
}

// Renames values whose names shards do not take. Different names stay different.
void ReplaceNames(GraphProto* graph) {
  std::vector<std::string*> names;
  for (TensorProto& tensor : *graph->mutable_initializer()) names.push_back(tensor.mutable_name());
  for (auto* const infos :
       {graph->mutable_input(), graph->mutable_output(), graph->mutable_value_info()}) {
    for (ValueInfoProto& info : *infos) names.push_back(info.mutable_name());
  }
  for (NodeProto& node : *graph->mutable_node()) {
    for (std::string& name : *node.mutable_input()) names.push_back(&name);
    for (std::string& name : *node.mutable_output()) names.push_back(&name);
  }
  std::set<std::string> used;
  for (const std::string* name : names) used.insert(*name);
  std::map<std::string, std::string> replaced;
  std::map<std::string, int> numbers;  // the last number behind a name that is used
  for (std::string* const name : names) {
    if (IsTaken(*name)) continue;
    std::string& other = replaced[*name];
    if (other.empty()) {
      std::string plain = name->substr(0, kLongestName - 12);  // leaves room for a number
      for (char& c : plain) {
        if (!absl::ascii_isgraph(c)) c = '_';
      }
      other = plain;
      while (!used.insert(other).second) other = absl::StrCat(plain, "_", ++numbers[plain]);
    }
    *name = other;
  }
}

}  // namespace

std::string SafeName(const std::string& name) {
  std::string safe = name.substr(0, 120);
  for (char& c : safe) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '?';
  }
  return safe;
}

std::string NodeLabel(const NodeProto& node) {
  const std::string name = !node.name().empty()     ? node.name()
                           : node.output_size() > 0 ? node.output(0)
                                                    : "without a name";
  return absl::StrCat(SafeName(node.op_type()), " node ", SafeName(name));
}

absl::StatusOr<OnnxFile> OnnxFile::Read(const std::string& path) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed) {
    return NotFoundError("cannot read the model ", path, ": ", failed.message(),
                         "; model.onnx is a path on every machine of the run");
  }
  if (size > kLargestFile) {
    return InvalidArgumentError("the model ", path, " has ", size,
                                " bytes; an ONNX file has less than 2 GiB");
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return NotFoundError("cannot read the model ", path, "; may this user read the file?");
  }
  return Parse(bytes, path);
}

absl::StatusOr<OnnxFile> OnnxFile::Parse(const std::string& bytes, const std::string& path) {
  OnnxFile file;
  file.path_ = path;
  ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph()) {
    return NotAModel(absl::StrCat(path, " is not an ONNX model, or is cut short (", bytes.size(),
                                  " bytes); export it again, and copy it whole"));
  }
  for (const OperatorSetIdProto& set : model.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") file.opset_ = set.version();
  }
  file.producer_ = model.producer_name();
  file.graph_ = std::move(*model.mutable_graph());
  const absl::Status checked = file.Check();
  if (!checked.ok()) return Annotate(checked, absl::StrCat("the model ", path));
  return file;
}

absl::Status OnnxFile::Check() {
  if (opset_ < kOldestOpset || opset_ > kNewestOpset) {
    return NotAModel(
        absl::StrCat("is of opset ", opset_, "; psgd reads ", kOldestOpset, " to ", kNewestOpset,
                     ": export it again, as with torch.onnx.export(..., opset_version=17)"));
  }
  if (graph_.node_size() == 0 || graph_.output_size() == 0) {
    return NotAModel("has no nodes or no output; export it again");
  }
  if (graph_.node_size() > kMostNodes) {
    return NotAModel(
        absl::StrCat("has ", graph_.node_size(), " nodes; at most ", kMostNodes,
                     " are taken: export the network without unrolled loops, or simplify "
                     "it"));
  }
  ReplaceNames(&graph_);
  PSGD_RETURN_IF_ERROR(ReadInitializers());
  PSGD_RETURN_IF_ERROR(CheckNodes());
  NameIdentities();
  ReadMarks();
  FuseNodes(&graph_, initializers_);
  return absl::OkStatus();
}

absl::Status OnnxFile::ReadInitializers() {
  for (TensorProto& tensor : *graph_.mutable_initializer()) {
    const std::string where = absl::StrCat("initializer ", SafeName(tensor.name()));
    if (tensor.name().empty()) return NotAModel("has an initializer without a name");
    absl::StatusOr<ArrayPtr> array = ReadArray(tensor);
    if (!array.ok())
      return NotAModel(absl::StrCat(where, " ", std::string(array.status().message())));
    if (!initializers_.emplace(tensor.name(), *std::move(array)).second) {
      return NotAModel(where + " is there twice; the file is damaged or was made by hand");
    }
    tensor.clear_raw_data();  // the array holds the values now
    tensor.clear_float_data();
  }
  return absl::OkStatus();
}

// Checks that each name is made once, before its use. So there is no cycle.
absl::Status OnnxFile::CheckNodes() const {
  std::set<std::string> known, makers;
  for (const auto& [name, array] : initializers_) known.insert(name);
  std::set<std::string> inputs;
  for (const ValueInfoProto& input : graph_.input()) {
    if (!inputs.insert(input.name()).second || input.name().empty()) {
      return NotAModel(absl::StrCat("has two inputs called ", SafeName(input.name())));
    }
    known.insert(input.name());
  }
  for (const NodeProto& node : graph_.node()) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) makers.insert(output);
    }
  }
  for (const NodeProto& node : graph_.node()) {
    for (const std::string& input : node.input()) {
      if (input.empty() || known.count(input) > 0) continue;
      return NotAModel(absl::StrCat(
          NodeLabel(node), " uses ", SafeName(input), ", which ",
          makers.count(input) > 0 ? "only it or a later node makes: the nodes form a cycle or are "
                                    "not in the order that ONNX asks for"
                                  : "nothing makes: the file is damaged or was cut by hand"));
    }
    for (const std::string& output : node.output()) {
      if (!output.empty() && !known.insert(output).second) {
        return NotAModel(absl::StrCat(NodeLabel(node), " makes ", SafeName(output),
                                      ", which is there already; each name is made once"));
      }
    }
  }
  for (const ValueInfoProto& output : graph_.output()) {
    if (known.count(output.name()) == 0) {
      return NotAModel(
          absl::StrCat("has the output ", SafeName(output.name()), ", which no node makes"));
    }
  }
  return absl::OkStatus();
}

void OnnxFile::NameIdentities() {
  if (!producer_.empty() && producer_ != kPyTorch) return;
  for (const NodeProto& node : graph_.node()) {
    if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1) continue;
    const auto found = initializers_.find(node.input(0));
    if (found == initializers_.end()) continue;
    const std::string& name = node.output(0);
    if (!IsOfParameter(name, producer_)) continue;
    const auto first = second_names_.find(node.input(0));
    second_names_[name] = first == second_names_.end() ? node.input(0) : first->second;
    initializers_[name] = found->second;
  }
}

void OnnxFile::ReadMarks() {
  for (const auto* const infos : {&graph_.input(), &graph_.value_info()}) {
    for (const ValueInfoProto& info : *infos) {
      for (const StringStringEntryProto& property : info.metadata_props()) {
        if (property.key() == kMark) marks_[info.name()] = property.value();
      }
    }
  }
}

bool OnnxFile::IsParameter(const std::string& name) const {
  const auto mark = marks_.find(name);
  return mark != marks_.end() && mark->second == kMarkOfParameters;
}

bool OnnxFile::MayBeParameter(const std::string& name) const {
  return !marks_parameters() && producer_ == kPyTorch && IsOfParameter(name, /*producer=*/"");
}

bool OnnxFile::IsBuffer(const std::string& name) const {
  return marks_.count(name) > 0 && !IsParameter(name);
}

}  // namespace psgd::onnx
