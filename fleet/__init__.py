"""The pure core: fleet files, packing, memory and plans. Nothing here touches the world."""
