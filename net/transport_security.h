// Security of the data plane: mutual TLS for gRPC, CURVE for ZeroMQ, and the list of admitted
// workers. Workers get their part through the control plane.
#pragma once

#include <memory>
#include <string>

#include "net/allow_list.h"
#include "net/credentials.h"
#include "proto/data.pb.h"

namespace psgd {

// Keys of ZeroMQ's CURVE mechanism (Curve25519), in Z85, 40 characters each.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};
CurveKeys MakeCurveKeys();
// Whether the text has the form of a public key.
bool IsCurveKey(absl::string_view text);
// Makes 256 random bits that nobody can guess.
std::string MakeToken();

struct TransportSecurity {
  std::shared_ptr<const Credentials> credentials;
  CurveKeys curve;  // this side's keys
  // Set on a listening side.
  std::shared_ptr<const AllowList> allowed;
  // Set on a connecting side.
  std::string server_curve_key;
  std::string token;
  // The name that the server's certificate must carry: the name by which the control plane was
  // reached, whatever address the shard listens at. Empty: the address itself.
  std::string server_name;
};

}  // namespace psgd
