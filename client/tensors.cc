#include "client/tensors.h"

#include <algorithm>

#include "common/bytes.h"
#include "common/finite.h"
#include "common/names.h"

namespace psgd {

absl::Status ClientTensors::Add(const ClientTensor& tensor, std::span<const float> first) {
  const auto same = std::ranges::find_if(
      model_.parameters(), [&](const ParameterSpec& p) { return p.name() == tensor.name; });
  if (same != model_.parameters().end()) {
    return InvalidArgumentError("two tensors are called ", Readable(tensor.name),
                                "; add tied weights once");
  }
  if (const auto bad = FirstNotFinite(first)) {
    return OutOfRangeError("the first weights of ", tensor.name, " are not finite: element ", *bad,
                           " is ", first[*bad]);
  }
  ParameterSpec& parameter = *model_.add_parameters();
  parameter.set_name(tensor.name);
  parameter.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  parameter.set_role(tensor.statistic ? ParameterSpec::STATISTIC : ParameterSpec::TRAINED);
  parameter.set_decay(tensor.decays && !tensor.statistic);
  parameter.set_sparse(tensor.sparse && !tensor.statistic);
  parameter.mutable_initializer()->mutable_given()->set_checksum(ChecksumOf(std::as_bytes(first)));
  weights_.emplace_back(first.begin(), first.end());
  return absl::OkStatus();
}

absl::Status ClientTensors::Check(uint32_t tensor) const {
  if (tensor < size()) return absl::OkStatus();
  return InvalidArgumentError("tensor ", tensor, ", and there are ", size());
}

absl::Status ClientTensors::Check(uint32_t tensor, size_t elements) const {
  PSGD_RETURN_IF_ERROR(Check(tensor));
  if (elements == weights_[tensor].size()) return absl::OkStatus();
  return InvalidArgumentError(name(tensor), " has ", weights_[tensor].size(),
                              " elements, and this call ", elements,
                              "; did the tensor change its shape?");
}

}  // namespace psgd
