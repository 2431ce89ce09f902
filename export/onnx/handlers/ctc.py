"""What tf2onnx converts to other numbers and ONNX has no form for: refused, so that it cannot be wrong in silence."""

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


@handler("CTCGreedyDecoder")
def ctc_greedy_decoder(ctx: Replacement) -> None:
    """tf2onnx takes the last class for the blank, whatever `blank_index` says."""
    if ctx.attribute("blank_index", -1) != -1:
        raise ValueError("CTC decoding with a blank that is not the last class has no ONNX form.")
    ctx.leave_to_tf2onnx()
