#include "engine/cudnn/blas.h"
#include "engine/cudnn/kernels.h"

// Products run over whole sequences at once, except h w_hh^T and its backward pass, which run step
// by step. cuDNN's own cells repeat their bits only if a variable of the environment is set, need
// all weights of a layer in one piece of memory in cuDNN's order, and round saved values
// differently in another precision.
namespace psgd::cudnn {
namespace {

struct Sizes {
  Sizes(const Recurrent& op, const Shape& x, int64_t hidden)
      : batch(x[0]),
        steps(x[1]),
        inputs(x[2]),
        width(hidden),
        rows(op.gates() * hidden),
        places(batch * steps) {}

  CellShape cell() const { return {batch, steps, width}; }

  int64_t batch, steps, inputs, width;
  int64_t rows;    // of the weights
  int64_t places;  // samples x steps
};

View Scratch(Lowering& l, int64_t count, Type type) {
  return {{Layout::kPlain, type}, l.Temporary(static_cast<size_t>(count) * TypeBytes(type))};
}

// The rows of one step, one a sample, in a tensor with a row a place.
Matrix OfStep(const Sizes& s, const View& view, int64_t columns, int64_t step) {
  return {.view = view,
          .rows = s.batch,
          .columns = columns,
          .begin = step * columns,
          .stride = s.steps * columns};
}

}  // namespace

void Lower(const Recurrent& op, const Context& c) {
  Lowering& l = c.lowering;
  const Sizes s(op, l.shape(c.in(0)), l.shape(c.out(0))[2]);
  const View x = l.Get(c.in(0), l.PlainFormat());
  const View w_ih = l.Get(c.in(1), l.PlainFormat()), w_hh = l.Get(c.in(2), l.PlainFormat());
  const View b_ih = l.Get(c.in(3), kPlainFloat), b_hh = l.Get(c.in(4), kPlainFloat);
  const View y = l.Put(c.out(0), l.PlainFormat()), saved = l.Put(c.out(1), kPlainFloat);
  const View of_x = Scratch(l, s.places * s.rows, Type::kFloat);
  const View of_h = Scratch(l, s.batch * s.rows, Type::kFloat);
  Multiply(c, {x, s.places, s.inputs}, {w_ih, s.rows, s.inputs, true}, {of_x, s.places, s.rows});
  for (int64_t step = 0; step < s.steps; ++step) {
    if (step > 0) {
      Multiply(c, OfStep(s, y, s.width, step - 1), {w_hh, s.rows, s.width, true},
               {of_h, s.batch, s.rows});
    }
    l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
      return CellForward(stream, type, op, s.cell(), step,
                         {.a = In(b, of_x),
                          .b = step > 0 ? In(b, of_h) : nullptr,
                          .b_ih = In(b, b_ih),
                          .b_hh = In(b, b_hh),
                          .saved = Out(b, saved),
                          .y = b[y.buffer]});
    });
  }
}

void Lower(const RecurrentBackward& op, const Context& c) {
  Lowering& l = c.lowering;
  const Sizes s(op.forward, l.shape(c.in(0)), l.shape(c.in(3))[2]);
  const Format plain = l.PlainFormat();
  const View x = l.Get(c.in(0), plain), w_ih = l.Get(c.in(1), plain), w_hh = l.Get(c.in(2), plain);
  const View y = l.Get(c.in(3), plain), saved = l.Get(c.in(4), kPlainFloat);
  const View dy = l.Get(c.in(5), plain);
  const View da = Scratch(l, s.places * s.rows, l.type()),
             db = Scratch(l, s.places * s.rows, l.type());
  const View last = Scratch(l, s.places * s.width, l.type());
  const View dh = Scratch(l, s.batch * s.width, Type::kFloat);
  const View carry = Scratch(l, s.batch * s.width, Type::kFloat);
  const float keep = op.forward.kind == Recurrent::Kind::kGru ? 1.0f : 0.0f;
  for (int64_t step = s.steps - 1; step >= 0; --step) {
    l.CallKernel([=, forward = op.forward, stream = l.stream(), type = l.type()](const Buffers& b,
                                                                                 const Step&) {
      return CellBackward(stream, type, forward, s.cell(), step,
                          {.saved = In(b, saved),
                           .y = b[y.buffer],
                           .dy = b[dy.buffer],
                           .dh = Out(b, dh),
                           .carry = Out(b, carry),
                           .da = b[da.buffer],
                           .db = b[db.buffer],
                           .last = b[last.buffer]});
    });
    if (step == 0) break;
    Multiply(c, OfStep(s, db, s.rows, step), {w_hh, s.rows, s.width}, {dh, s.batch, s.width},
             {.keep = keep});
  }
  // Writes fp32 directly, because the sums are in fp32 anyway.
  Multiply(c, {da, s.places, s.rows, true}, {x, s.places, s.inputs},
           {l.Put(c.out(0), kPlainFloat), s.rows, s.inputs});
  Multiply(c, {db, s.places, s.rows, true}, {last, s.places, s.width},
           {l.Put(c.out(1), kPlainFloat), s.rows, s.width});
  PutColumnSums(c, s.places, s.rows, da.buffer, c.out(2));
  PutColumnSums(c, s.places, s.rows, db.buffer, c.out(3));
  if (!c.has_out(4)) return;
  Multiply(c, {da, s.places, s.rows}, {w_ih, s.rows, s.inputs},
           {l.Put(c.out(4), plain), s.places, s.inputs});
}

}  // namespace psgd::cudnn
