"""Data sets and clusters of other libraries, by the public interface alone, as another package would add its own."""
