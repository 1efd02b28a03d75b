"""What is known about model shapes and accelerators without downloading anything: tables and their readers."""
