// What a terminal can show.
#pragma once

namespace psgd {

struct Terminal {
  bool interactive = false;  // a line may be redrawn
  bool color = false;        // NO_COLOR (no-color.org) turns it off
};

Terminal DescribeTerminal(int fd);

// Columns at this moment, because the window may be resized. 80 if unknown.
int TerminalWidth(int fd);
// Lines at this moment; 24 if unknown.
int TerminalHeight(int fd);

}  // namespace psgd
