"""Layers of a user that pass messages along the edges of a graph, after a normalization."""

import math

import keras
from keras import ops
from keras.layers import Dense, Layer, LayerNormalization


def gcn_norm(adj):
    """D^-1/2 (A + I) D^-1/2 with dense matrices."""
    with_loops = adj + ops.eye(adj.shape[-1])
    inv = ops.rsqrt(ops.sum(with_loops, axis=-1))
    return inv[:, :, None] * with_loops * inv[:, None, :]


class EdgeMessage(Layer):
    """m_ij = act(W_r h_i + W_s h_j + W_e e_ij), gated by itself."""

    def __init__(self, dim, **kwargs):
        super().__init__(**kwargs)
        self.send = Dense(dim, name="send")
        self.recv = Dense(dim, use_bias=False, name="recv")
        self.edge = Dense(dim, use_bias=False, name="edge")
        self.gate = Dense(1, name="gate")

    def build(self, h_shape, e_shape):
        self.send.build(h_shape)
        self.recv.build(h_shape)
        self.edge.build(e_shape)
        self.gate.build((*e_shape[:-1], self.edge.units))

    def call(self, h, e):
        receiver = self.recv(h)[:, :, None, :]
        sender = self.send(h)[:, None, :, :]
        m = ops.gelu(receiver + sender + self.edge(e), approximate=False)
        return m * ops.sigmoid(self.gate(m))


class MessagePassing(Layer):
    def __init__(self, dim, steps=2, **kwargs):
        super().__init__(**kwargs)
        self.dim, self.steps = dim, steps
        self.message = EdgeMessage(dim, name="message")
        self.norm = LayerNormalization(epsilon=1e-3, name="norm")

    def build(self, h_shape, e_shape, raw_shape):
        d = self.dim
        self.message.build(h_shape, e_shape)
        self.norm.build(h_shape)
        self.w_self = self.add_weight(shape=(d, d), name="w_self")
        self.w_agg = self.add_weight(shape=(d, d), name="w_agg")
        self.w_conv = self.add_weight(shape=(d, d), name="w_conv")
        self.w_edge = self.add_weight(shape=(d, e_shape[-1]), name="w_edge")

    def call(self, h, e, raw):
        adj = ops.sigmoid((raw + ops.transpose(raw, (0, 2, 1))) / math.sqrt(2.0))
        adj = adj * (1.0 - ops.eye(raw.shape[-1]))
        for step in range(self.steps):
            m = self.message(self.norm(h), e)
            agg = ops.einsum("bij,bijd->bid", adj, m)
            agg = agg / (ops.sum(adj, axis=-1, keepdims=True) + 0.1)
            z = ops.matmul(h, self.w_self) + ops.matmul(agg, self.w_agg)
            z = z + ops.matmul(ops.matmul(gcn_norm(adj), h), self.w_conv)
            h = h + 0.5 * ops.tanh(z / math.sqrt(self.dim))
            e = e + ops.matmul(m, self.w_edge) / (step + 2)
        return h, ops.mean(adj[..., None] * e, axis=(1, 2))


def make():
    ins = [keras.Input(s) for s in [(7, 8), (7, 7, 3), (7, 7)]]
    return keras.Model(ins, MessagePassing(8, name="mp")(*ins))
