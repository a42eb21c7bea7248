#include "net/run_store.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace psgd {

std::string BytesOf(const RunRecord& record) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    record.SerializeToCodedStream(&out);
  }
  return bytes;
}

}  // namespace psgd
