#include "compression/slice_shape.h"

namespace psgd {

SliceShape ShapeOf(const SliceSpec& slice, const ParameterSpec& parameter) {
  SliceShape shape;
  shape.elements = slice.count();
  shape.offset = slice.offset();
  shape.tensor_rows = parameter.shape_size() > 0 ? parameter.shape(0) : 1;
  shape.tensor_columns = 1;
  for (int d = 1; d < parameter.shape_size(); ++d) shape.tensor_columns *= parameter.shape(d);
  return shape;
}

}  // namespace psgd
