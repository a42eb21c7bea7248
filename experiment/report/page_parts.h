// Parts of every page: its style, and the script that sorts tables and shows tooltips.
#pragma once

namespace psgd {

extern const char kPageStyle[];
extern const char kPageScript[];

}  // namespace psgd
