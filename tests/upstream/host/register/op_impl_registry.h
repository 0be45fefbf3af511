// As much of the operator registry as a generated tiling function needs, so that it runs without CANN.
#ifndef TEST_OP_IMPL_REGISTRY_H
#define TEST_OP_IMPL_REGISTRY_H

#include <cstddef>
#include <cstdint>
#include <vector>

#define GET_TPL_TILING_KEY(mode) static_cast<uint64_t>(mode)

namespace ge {
enum DataType { DT_FLOAT, DT_FLOAT16, DT_BF16 };
enum graphStatus { GRAPH_SUCCESS, GRAPH_FAILED };
} // namespace ge

namespace gert {
class Shape {
public:
    explicit Shape(std::vector<int64_t> sizes) : sizes(std::move(sizes)) {}
    size_t GetDimNum() const { return sizes.size(); }
    int64_t GetDim(size_t axis) const { return sizes.at(axis); }

private:
    std::vector<int64_t> sizes;
};

class StorageShape {
public:
    explicit StorageShape(Shape shape) : shape(std::move(shape)) {}
    const Shape& GetStorageShape() const { return shape; }

private:
    Shape shape;
};

class CompileTimeTensorDesc {
public:
    explicit CompileTimeTensorDesc(ge::DataType dtype) : dtype(dtype) {}
    ge::DataType GetDataType() const { return dtype; }

private:
    ge::DataType dtype;
};

class TilingContext {
public:
    TilingContext(ge::DataType dtype, std::vector<std::vector<int64_t>> inputs) : desc(dtype)
    {
        for (auto& sizes : inputs) {
            shapes.emplace_back(Shape(std::move(sizes)));
        }
    }
    const StorageShape* GetInputShape(size_t input) const { return input < shapes.size() ? &shapes[input] : nullptr; }
    const CompileTimeTensorDesc* GetInputDesc(size_t) const { return &desc; }
    template <typename T>
    T* GetTilingData()
    {
        data.resize(sizeof(T));
        return reinterpret_cast<T*>(data.data());
    }
    size_t* GetWorkspaceSizes(size_t) { return &workspace; }
    void SetBlockDim(uint32_t value) { blocks = value; }
    void SetTilingKey(uint64_t value) { key = value; }

    std::vector<uint8_t> data;
    size_t workspace = 0;
    uint32_t blocks = 0;
    uint64_t key = 0;

private:
    std::vector<StorageShape> shapes;
    CompileTimeTensorDesc desc;
};

class TilingParseContext {};
} // namespace gert

struct Registration {
    using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
    Registration& Tiling(TilingFunction function)
    {
        tiling() = function;
        return *this;
    }
    template <typename>
    Registration& TilingParse(ge::graphStatus (*)(gert::TilingParseContext*))
    {
        return *this;
    }
    static TilingFunction& tiling()
    {
        static TilingFunction function = nullptr;
        return function;
    }
};

#define IMPL_OP_OPTILING(op) static Registration registration##op = Registration()

#endif
