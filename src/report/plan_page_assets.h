// Declares the fixed parts of a plan's page: raw strings in sources of their own, because the page must be one file,
// and so must the program.
#pragma once

namespace plimsoll {

extern const char* const kPlanPageStyle;     ///< CSS: light and dark, wide and narrow
extern const char* const kPlanPageModel;     ///< JavaScript: reads the data, formats, tooltips, the view on the ops
extern const char* const kPlanPageCharts;    ///< JavaScript: draws the timeline and the arena map
extern const char* const kPlanPageFrontier;  ///< JavaScript: draws memory against step time
extern const char* const kPlanPageControls;  ///< JavaScript: pointer, keyboard, zoom; starts the page, so it comes last

}  // namespace plimsoll
