// A slice's place in its tensor, as codecs need it.
#pragma once

#include "compression/codec.h"
#include "proto/model.pb.h"

namespace psgd {

SliceShape ShapeOf(const SliceSpec& slice, const ParameterSpec& parameter);

}  // namespace psgd
