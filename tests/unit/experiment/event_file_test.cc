#include "experiment/record/event_file.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

// tests/observe/records_test.py reads whole files, with no code of psgd.
TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8u);
}

}  // namespace
}  // namespace psgd
