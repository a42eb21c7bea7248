// What makes a data plane secure: TLS on both sides for gRPC, CURVE for ZeroMQ, and the list of
// those who may connect. The control plane hands out what a worker needs of it.
#pragma once

#include <memory>
#include <string>

#include "net/allow_list.h"
#include "net/credentials.h"
#include "proto/data.pb.h"

namespace psgd {

// Of ZeroMQ's CURVE mechanism (Curve25519), in Z85: 40 characters each.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};
CurveKeys MakeCurveKeys();
// Whether the text can be a public key.
bool IsCurveKey(absl::string_view text);
// 256 random bits, for nobody to guess.
std::string MakeToken();

// For people: a message came in the name of a worker whose pass the connection does not have.
std::string NotItsPass(const DataHeader& header);

struct TransportSecurity {
  std::shared_ptr<const Credentials> credentials;
  CurveKeys curve;  // of this side
  // Of a listening side.
  std::shared_ptr<const AllowList> allowed;
  // Of a connecting side.
  std::string server_curve_key;
  std::string token;
  // The name that the server's certificate has to be for, whatever address it listens at: that by
  // which the control plane was reached. Empty: the address itself.
  std::string server_name;
};

}  // namespace psgd
