// Any text as what etcd holds of a run (--chain=json): refused with a reason that says where it
// lies, or a chain that is the same when it is written again, and which every one of its servers,
// and nobody else, may go on with.
#include <google/protobuf/util/message_differencer.h>

#include "net/etcd/etcd_chain_store.h"
#include "server/control/chain.h"
#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {
namespace {

constexpr char kKey[] = "/psgd/run/chain";

void Read(const std::string& text) {
  const auto chain = ChainFromJson(text, kKey);
  if (!chain.ok()) {
    const std::string reason(chain.status().message());
    Require(reason.find(kKey) != std::string::npos, "the error does not say where");
    return;
  }
  const auto again = ChainFromJson(ChainToJson(*chain), kKey);
  Require(again.ok() && google::protobuf::util::MessageDifferencer::Equals(*again, *chain),
          "a chain is another after it was written and read");
  Require(chain->members_size() > 0, "a chain of nobody is taken");
  uint32_t stranger = 0;
  while (IsIn(*chain, stranger)) ++stranger;
  RecordedChain held(*chain);
  Require(!LeadAgain(held, *chain, stranger, "host:1").ok(), "a stranger may lead");
  for (const Chain::Member& member : chain->members()) {
    RecordedChain store(*chain);
    const auto led = LeadAgain(store, *chain, member.replica(), "host:1");
    if (!led.ok()) continue;
    Require(led->chain.members(0).replica() == member.replica(), "another leads than took over");
    Require(led->chain.epoch() > chain->epoch(), "its epoch is not a higher one");
    Require(led->chain.members_size() <= chain->members_size(), "somebody came in");
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  psgd::fuzz::Require(psgd::fuzz::Variant("chain", *argc, *argv) == "json",
                      "say what, as --chain=json");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  psgd::fuzz::Read(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
