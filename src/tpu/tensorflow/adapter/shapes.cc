#include "tpu/tensorflow/adapter/shapes.h"

#include <utility>

#include "tpu/tensorflow/adapter/handles.h"
#include "xla/shape_util.h"
#include "xla/stream_executor/tpu/c_api_conversions.h"

namespace torus::tensorflow {
namespace {

// XLA's types are those of PJRT by other numbers.
PJRT_Buffer_Type ToPjrt(xla::PrimitiveType type) {
  switch (type) {
    case xla::PRED:
      return PJRT_Buffer_Type_PRED;
    case xla::S4:
      return PJRT_Buffer_Type_S4;
    case xla::S8:
      return PJRT_Buffer_Type_S8;
    case xla::S16:
      return PJRT_Buffer_Type_S16;
    case xla::S32:
      return PJRT_Buffer_Type_S32;
    case xla::S64:
      return PJRT_Buffer_Type_S64;
    case xla::U4:
      return PJRT_Buffer_Type_U4;
    case xla::U8:
      return PJRT_Buffer_Type_U8;
    case xla::U16:
      return PJRT_Buffer_Type_U16;
    case xla::U32:
      return PJRT_Buffer_Type_U32;
    case xla::U64:
      return PJRT_Buffer_Type_U64;
    case xla::F16:
      return PJRT_Buffer_Type_F16;
    case xla::BF16:
      return PJRT_Buffer_Type_BF16;
    case xla::F32:
      return PJRT_Buffer_Type_F32;
    case xla::F64:
      return PJRT_Buffer_Type_F64;
    case xla::F8E5M2:
      return PJRT_Buffer_Type_F8E5M2;
    case xla::F8E4M3FN:
      return PJRT_Buffer_Type_F8E4M3FN;
    case xla::C64:
      return PJRT_Buffer_Type_C64;
    case xla::C128:
      return PJRT_Buffer_Type_C128;
    default:
      return PJRT_Buffer_Type_INVALID;
  }
}

// A C list's values, which are in it while there are few. (TensorFlow does not export its own.)
template <typename List>
auto SpanOf(const List& list) {
  return absl::MakeConstSpan(list.size > TPU_C_API_MAX_INLINED ? list.heap : list.inlined,
                             list.size);
}

void ToDeviceShape(const XLA_Shape* host, XLA_Shape* device) {
  ApiConverter::ToC(OnDevice(FromC(*host)), device);
}

}  // namespace

xla::Shape FromC(const XLA_Shape& shape) {
  const auto type = static_cast<xla::PrimitiveType>(shape.element_type);
  if (type == xla::TUPLE) {
    std::vector<xla::Shape> elements;
    for (int i = 0; i < shape.ntuple_shapes; ++i) elements.push_back(FromC(shape.tuple_shapes[i]));
    return xla::ShapeUtil::MakeTupleShape(elements);
  }
  if (type == xla::TOKEN) return xla::ShapeUtil::MakeTokenShape();
  const auto dimensions = SpanOf(shape.dimensions);
  const auto dynamic = SpanOf(shape.dynamic_dimensions);
  auto made = xla::ShapeUtil::MakeShapeWithDescendingLayout(type, dimensions);
  for (size_t i = 0; i < dynamic.size(); ++i)
    if (dynamic[i]) made.set_dynamic_dimension(static_cast<int>(i), true);
  return made;
}

xla::Shape OnDevice(xla::Shape shape) {
  xla::ShapeUtil::ForEachMutableSubshape(&shape, [](xla::Shape* each, const xla::ShapeIndex&) {
    if (each->IsArray()) xla::LayoutUtil::SetToDefaultLayout(each);
  });
  return shape;
}

int64_t ByteSize(const xla::Shape& shape) {
  return xla::ShapeUtil::ByteSizeOf(shape, sizeof(void*));
}

Result<ArrayShape> ToArrayShape(const xla::Shape& shape) {
  ArrayShape made;
  if (shape.IsArray()) made.type = ToPjrt(shape.element_type());
  if (made.type == PJRT_Buffer_Type_INVALID)
    return Unimplemented("an array of shape {} on the software TPU",
                         xla::ShapeUtil::HumanString(shape));
  made.dimensions.assign(shape.dimensions().begin(), shape.dimensions().end());
  return made;
}

Result<std::vector<ArrayShape>> ToArrayShapes(const xla::Shape& shape) {
  std::vector<ArrayShape> made;
  if (!shape.IsTuple()) {
    TORUS_ASSIGN_OR_RETURN(auto array, ToArrayShape(shape));
    made.push_back(std::move(array));
  }
  for (const auto& element : shape.IsTuple() ? shape.tuple_shapes() : std::vector<xla::Shape>()) {
    TORUS_ASSIGN_OR_RETURN(auto array, ToArrayShape(element));
    made.push_back(std::move(array));
  }
  return made;
}

}  // namespace torus::tensorflow

using torus::tensorflow::ByteSize;
using torus::tensorflow::FromC;
using torus::tensorflow::ToDeviceShape;

TORUS_TFTPU void XlaShapeToTpuShapeRepresentation(XLA_Shape* host, int, bool, XLA_Shape* device,
                                                  TF_Status*) {
  ToDeviceShape(host, device);
}

TORUS_TFTPU void XlaShapeToTpuPaddedShape(XLA_Shape* host, XLA_Shape* padded, TF_Status*) {
  ToDeviceShape(host, padded);
}

TORUS_TFTPU void HardwareLayout_HostShapeToDeviceShape(XLA_Shape* host, XLA_Shape* device) {
  ToDeviceShape(host, device);
}

TORUS_TFTPU int64_t HardwareLayout_ShapeSize(XLA_Shape* shape) { return ByteSize(FromC(*shape)); }

TORUS_TFTPU int64_t HardwareLayout_ShapeSizeCompact(XLA_Shape* shape) {
  return ByteSize(FromC(*shape));
}

TORUS_TFTPU int64_t HardwareLayout_ShapeSizeCompactRaw(XLA_Shape* shape) {
  return ByteSize(FromC(*shape));
}

TORUS_TFTPU void TpuTransferManager_HostShapeToDeviceShape(XLA_TransferManager*, XLA_Shape* host,
                                                           XLA_Shape* device) {
  ToDeviceShape(host, device);
}

TORUS_TFTPU void TpuTransferManager_ChooseCompactLayoutForShape(XLA_TransferManager*,
                                                                XLA_Shape* host, XLA_Shape* output,
                                                                TF_Status*) {
  ToDeviceShape(host, output);
}

TORUS_TFTPU int64_t TpuTransferManager_GetByteSizeRequirement(XLA_TransferManager*,
                                                              XLA_Shape* shape) {
  return ByteSize(FromC(*shape));
}

TORUS_TFTPU int64_t TpuCompiler_ShapeSize(Tpu_Compiler*, XLA_Shape* shape) {
  return ByteSize(FromC(*shape));
}

TORUS_TFTPU void TpuCompiler_DefaultDeviceShapeRepresentation(Tpu_Compiler*, XLA_Shape* host,
                                                              XLA_Shape* device) {
  ToDeviceShape(host, device);
}
