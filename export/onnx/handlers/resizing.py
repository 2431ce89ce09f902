"""The bilinear resizing of images. The trace replaces other methods by sums of pixels, see `graph/resizing`."""

from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler


@handler("ResizeBilinear")
def bilinear(ctx: Replacement, images: str, size: str) -> str:
    """Writes Resize with the size: tf2onnx passes the ratio, whose rounding may lose a pixel."""
    images = ctx.emit("Transpose", ctx.cast(images, "float32"), perm=[0, 3, 1, 2])
    shape = ctx.emit("Slice", ctx.emit("Shape", images), [0], [2])
    shape = ctx.emit("Concat", shape, ctx.cast(size, "int64"), axis=0)
    places = next((name for name in ("align_corners", "half_pixel_centers") if ctx.attribute(name)), "asymmetric")
    mode = {"mode": "linear", "coordinate_transformation_mode": places.removesuffix("_centers")}
    return ctx.emit("Transpose", ctx.emit("Resize", images, "", "", shape, **mode), perm=[0, 2, 3, 1])


@handler("ResizeArea", "ResizeBicubic", "ResizeNearestNeighbor", "ScaleAndTranslate")
def refuse_options(ctx: Replacement, *inputs: str) -> None:
    """Refuses the operators that the trace has left: they have options that Keras does not set, or need gradients."""
    option = "align_corners=True" if ctx.attribute("align_corners") else "half_pixel_centers=False"
    if kernel := ctx.attribute("kernel_type"):
        option = f"kernel_type={kernel!r}"
    raise ValueError(
        f"{option} has no ONNX form, and no method has one within a gradient tape. Resize with keras.ops.image.resize "
        "outside of a tape."
    )
