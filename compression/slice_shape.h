// Where a slice lies in its tensor, as codecs want to know it.
#pragma once

#include "compression/codec.h"
#include "proto/model.pb.h"

namespace psgd {

SliceShape ShapeOf(const SliceSpec& slice, const ParameterSpec& parameter);

}  // namespace psgd
