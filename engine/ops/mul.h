// y = a b, element by element, both of one shape; da = dy b, db = dy a: two more of the same op.
#pragma once

namespace psgd {

// a, b -> y
struct Mul {};

}  // namespace psgd
